/** From a time of one thread to a time of another. */
export interface Arrow {
  fromThread: number;
  toThread: number;
  from: number;
  to: number;
  /** The program's own, not the kernel's. */
  flow: boolean;
  /** Belongs to what is selected. */
  strong: boolean;
}

/** More would be a carpet, not a picture. */
export const MAX_ARROWS = 1500;
