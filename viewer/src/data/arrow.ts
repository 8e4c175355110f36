/** What arrows there are: wake-ups, the program's own flows, tasks created, tasks run elsewhere than created. */
export const ARROW_KINDS = ["wake", "flow", "create", "steal"] as const;
export type ArrowKind = (typeof ARROW_KINDS)[number];

/** From a time of one thread to a time of another. */
export interface Arrow {
  kind: ArrowKind;
  fromThread: number;
  toThread: number;
  from: number;
  to: number;
  /** Belongs to what is selected. */
  strong: boolean;
}

/** More would be a carpet, not a picture. */
export const MAX_ARROWS = 1500;

/** Steals are shown from the start up to this many tasks: reading the table of more takes a while that nobody asked for. */
export const TASKS_AT_ONCE = 200_000;

/** The kinds in the order in which they are given up when there are too many: the rarest say most. */
const RAREST: readonly ArrowKind[] = ["steal", "flow", "wake", "create"];

/** Those that fit: of the selected first, then kind by kind, a kind wholly or not at all. */
export function fitting(arrows: Arrow[], most = MAX_ARROWS): Arrow[] {
  if (arrows.length <= most) return arrows;
  const out = arrows.filter((arrow) => arrow.strong).slice(0, most);
  for (const kind of RAREST) {
    const more = arrows.filter((arrow) => !arrow.strong && arrow.kind === kind);
    if (out.length + more.length <= most) out.push(...more);
  }
  return out;
}
