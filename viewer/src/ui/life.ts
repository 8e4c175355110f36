// When the recorded program lived.
import type { Index } from "../data/index";
import type { Recording } from "../data/recording";
import { clampRange } from "../view/viewport";

/**
 * From the start of the program's first thread to the end of its last; the whole recording when neither is known. Without time stamps
 * that stand apart from all others.
 */
export function lifeOf({ index }: Recording): [number, number] {
  const [t0, t1] = knownLife(index);
  const rest = index.without_stray;
  if (!rest) return [t0, t1];
  const cut: [number, number] = [Math.max(t0, rest[0]), Math.min(t1, rest[1])];
  return cut[1] > cut[0] ? cut : rest;
}

function knownLife(index: Index): [number, number] {
  const alive = index.threads.filter((thread) => index.processes[thread.process]?.target && thread.alive[1] > thread.alive[0]).map((thread) => thread.alive);
  if (alive.length === 0) return index.span[1] > index.span[0] ? index.span : [0, index.length];
  return [Math.min(...alive.map(([t]) => t)), Math.max(...alive.map(([, t]) => t))];
}

/** What "show everything" shows: the program's life with a margin. */
export function homeOf(recording: Recording): [number, number] {
  const [t0, t1] = lifeOf(recording);
  const margin = (t1 - t0) * 0.01;
  return clampRange(t0 - margin, t1 + margin, recording.length);
}
