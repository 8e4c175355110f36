// When the recorded program lived.
import type { Recording } from "../data/recording";
import { clampRange } from "../view/viewport";

/** From the start of the program's first thread to the end of its last; the whole recording when neither is known. */
export function lifeOf({ index }: Recording): [number, number] {
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
