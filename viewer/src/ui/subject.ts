// What a question without an object is about: the marked area, what is selected, or what is in view. A view of all that the program
// did is the whole recording: what is said of it agrees with the headline, which is of that.
import { Kind } from "../data/index";
import { lifeOf } from "./life";
import type { ViewState } from "./state";

/** CPUs of the marked area, or the selected item's; undefined: all. */
export function chosenCpus({ area, selected, arranger }: ViewState): Set<number> | undefined {
  if (selected?.line.kind === Kind.Cpu) return new Set([selected.line.owner]);
  const cpus = area ? arranger.cpusOf(area.tracks) : [];
  return cpus.length > 0 ? new Set(cpus) : undefined;
}

export interface Subject {
  t0: number;
  t1: number;
  cpus: Set<number> | undefined;
  /** As in "the account of ...". */
  text: string;
}

/** The time in view, and its name. */
export function inView({ view, recording }: ViewState): [number, number, string] {
  const { index, length } = recording;
  const [from, to] = lifeOf(recording);
  const isWhole = view.t0 <= from && view.t1 >= to && !index.without_stray;
  return isWhole ? [0, length, "the whole recording"] : [Math.max(0, view.t0), Math.min(length, view.t1), "what is in view"];
}

export function subjectOf(state: ViewState): Subject {
  const { area, selected, recording } = state;
  const clamp = (t: number): number => Math.min(Math.max(t, 0), recording.length);
  const [t0, t1, text] = area
    ? [area.t0, area.t1, "the marked area"]
    : selected && selected.end > selected.start
      ? [selected.start, selected.end, "the selected item's time"]
      : inView(state);
  return { t0: clamp(t0), t1: clamp(t1), cpus: chosenCpus(state), text };
}
