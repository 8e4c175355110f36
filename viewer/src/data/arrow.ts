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
