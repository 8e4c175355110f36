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

/** Buckets of a tile, and of the coarsest stored level, which is one tile: the overview. */
export const TILE = 2048;

/** A part of a stored level, and the same at half as many buckets. */
export interface Tile {
  level: Level;
  half: Level;
}

export function decodeTile(block: Uint8Array, offset: number, kind: Kind): Tile {
  const level = decodeLevel(block, offset, TILE);
  return { level, half: halve(level, kind) };
}

/** Buckets of the levels that are stored of a line whose finest has `finest`, coarse to fine, as `stored` in lod.rs. */
export function storedLevels(finest: number): number[] {
  const levels = [finest];
  while (levels[0]! > TILE) levels.unshift(Math.max(TILE, levels[0]! / 4));
  return levels;
}

function decodeLevel(block: Uint8Array, offset: number, n: number): Level {
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

/** An overview and its halves, coarse to fine, down to `fewest` buckets. */
export function pyramid(overview: Level, kind: Kind, fewest = 256): Level[] {
  const levels = [overview];
  while (levels[0]!.n > fewest) levels.unshift(halve(levels[0]!, kind));
  return levels;
}

/** What painting needs to know of a line: its levels that are always there, and the buckets of its finest. */
export interface Leveled {
  kind: Kind;
  /** The overview and its halves, coarse to fine; empty: the line has no levels, or they are not read yet. */
  levels: Level[];
  lod?: readonly number[];
}

/** A level in view: bucket `b` of its `n` is bucket `b % per` of `parts[floor(b / per) - first]`. */
export interface Stretch {
  n: number;
  per: number;
  first: number;
  parts: Level[];
}

/** Buckets of the coarsest level whose buckets are no wider than a pixel; of the finest when all are wider. */
export function bucketsFor(line: Leveled, length: number, nsPerPixel: number): number {
  const finest = line.lod?.[0] ?? 0;
  const coarse = line.levels.find((level) => length / level.n <= nsPerPixel)?.n;
  if (coarse !== undefined) return coarse;
  let n = TILE;
  while (n < finest && length / n > nsPerPixel) n *= 2;
  return n;
}

/** The tiles of the level of `n` buckets over `[t0, t1]`, of all of the line's: first, behind the last; and whether their halves are meant. */
export function tilesOf(line: Leveled, n: number, length: number, t0: number, t1: number): { base: number; first: number; last: number; half: boolean } {
  let base = 0;
  for (const stored of storedLevels(line.lod?.[0] ?? TILE)) {
    const tiles = stored / TILE;
    if (stored === n || stored === 2 * n) {
      const at = (t: number): number => Math.max(0, Math.min(tiles, (t / length) * tiles));
      const first = Math.min(tiles - 1, Math.floor(at(t0)));
      return { base, first, last: Math.min(tiles, Math.floor(at(t1)) + 1), half: stored !== n };
    }
    base += tiles;
  }
  return { base, first: 0, last: 0, half: false };
}

/** The level of `n` buckets of `line` over `[t0, t1]`; undefined: not all of it is there. Every tile is asked for. */
export function stretchOf(line: Leveled, n: number, length: number, t0: number, t1: number, tile: (t: number) => Tile | undefined): Stretch | undefined {
  const whole = line.levels.find((level) => level.n === n);
  if (whole) return { n, per: n, first: 0, parts: [whole] };
  const { base, first, last, half } = tilesOf(line, n, length, t0, t1);
  const parts: Level[] = [];
  let complete = last > first;
  for (let t = first; t < last; t++) {
    const there = tile(base + t);
    if (there) parts.push(half ? there.half : there.level);
    else complete = false;
  }
  return complete ? { n, per: half ? TILE / 2 : TILE, first, parts } : undefined;
}
