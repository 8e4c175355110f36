// Levels of detail: what a line looks like when a pixel is wider than its items. Built by crates/report/src/lod.rs.
import { columnBytes, words } from "./columns";
import { Kind, State } from "./index";

/** More than one item in the bucket. */
export const MERGED = 1;
/** More than one value in the bucket must stay visible; `note` is one of them. */
export const SEVERAL = 2;

/** One level: the axis cut into `n` equal buckets. */
export interface Level {
  n: number;
  /** Value that filled most of the bucket. */
  value: Uint32Array;
  /** How much was filled: 0 nothing at all, 1..255. */
  cover: Uint8Array;
  flags: Uint8Array;
  /** 1 + a value that must stay visible, whatever filled most; 0: none. */
  note: Uint32Array;
}

export function decodeLevel(block: Uint8Array, offset: number, n: number): Level {
  const at: number[] = [];
  for (let c = 0, next = offset; c < 4; c++) {
    at.push(next);
    next += columnBytes(block, next, n);
  }
  return {
    n,
    value: words(block, at[0]!, n),
    cover: Uint8Array.from(words(block, at[1]!, n)),
    flags: Uint8Array.from(words(block, at[2]!, n)),
    note: words(block, at[3]!, n),
  };
}

/** Whether a thread in this state did nothing that one looks for. */
export function isFaint(state: number): boolean {
  return state === State.Unknown || state === State.Sleeping || state > State.Disk;
}

/** Half as many buckets; the rule is that of `Level::halve` in lod.rs. */
export function halve(level: Level, kind: Kind): Level {
  const n = level.n >> 1;
  const half: Level = {
    n,
    value: new Uint32Array(n),
    cover: new Uint8Array(n),
    flags: new Uint8Array(n),
    note: new Uint32Array(n),
  };
  const { value, cover, flags, note } = level;
  const states = kind === Kind.State;
  for (let i = 0, a = 0; i < n; i++, a += 2) {
    const b = a + 1;
    const ca = cover[a]!;
    const cb = cover[b]!;
    if (ca === 0 && cb === 0) continue;
    // As for pixels (draw/lines.ts): sleep never hides that a thread ran for a part of the bucket.
    const fa = states && isFaint(value[a]!) ? 0 : ca;
    const fb = states && isFaint(value[b]!) ? 0 : cb;
    const pick = fb > fa || (fa === fb && cb > ca) ? b : a;
    const shown = value[pick]!;
    half.value[i] = shown;
    half.cover[i] = fa + fb > 0 ? (fa + fb + 1) >> 1 : cover[pick]!;
    const na = note[a]!;
    const nb = note[b]!;
    // The one that is not shown anyway; a note that is shown stays one, for a coarser level may show another value.
    half.note[i] = na !== 0 && (na !== shown + 1 || nb === 0) ? na : nb;
    const merged = ca > 0 && cb > 0 && value[a] !== value[b] ? MERGED : 0;
    const several = na !== 0 && nb !== 0 && na !== nb ? SEVERAL : 0;
    half.flags[i] = flags[a]! | flags[b]! | merged | several;
  }
  return half;
}

/** All levels of a line, coarse to fine, by halving `finest` down to `fewest` buckets. */
export function pyramid(finest: Level, kind: Kind, fewest = 256): Level[] {
  const levels = [finest];
  while (levels[0]!.n > fewest) levels.unshift(halve(levels[0]!, kind));
  return levels;
}

/** The coarsest level whose buckets are no wider than a pixel; the finest when all are wider. */
export function pick(levels: Level[], length: number, nsPerPixel: number): Level | undefined {
  return levels.find((level) => length / level.n <= nsPerPixel) ?? levels.at(-1);
}
