// Durations of a name's slices in bins: an octave cut into eight. Counted by crates/report/src/names.rs.
import type { NameRow } from "./index";

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Bin of a duration; the rule of `bin` in names.rs. */
export function binOf(ns: number): number {
  if (ns < 8) return Math.floor(ns);
  const octave = Math.floor(Math.log2(ns));
  // log2 rounds: near a power of two it may be one too high or low.
  const o = 2 ** octave > ns ? octave - 1 : 2 ** (octave + 1) <= ns ? octave + 1 : octave;
  return 8 * (o - 2) + (Math.floor(ns / 2 ** (o - 3)) & 7);
}

/** Where a bin begins. */
export function edgeOf(bin: number): number {
  return bin < 8 ? bin : (8 + (bin % 8)) * 2 ** (Math.floor(bin / 8) - 1);
}

/** A name's bins, ascending; without stored ones a single bin that holds its slices. */
export function binsOf(row: NameRow): Bin[] {
  const { bins } = row;
  if (!bins?.length) return [{ from: row.max, to: row.max + 1, count: row.count }];
  return Array.from({ length: bins.length / 2 }, (_, i) => ({ from: edgeOf(bins[2 * i]!), to: edgeOf(bins[2 * i]! + 1), count: bins[2 * i + 1]! }));
}

/** Duration below which `share` of the slices are: exact to the bin, an eighth of an octave. */
export function quantile(bins: Bin[], share: number): number {
  const all = bins.reduce((sum, bin) => sum + bin.count, 0);
  let seen = 0;
  for (const bin of bins) {
    if (seen + bin.count >= share * all) return bin.from + (bin.to - bin.from) * Math.min(1, Math.max(0, (share * all - seen) / bin.count));
    seen += bin.count;
  }
  return bins.at(-1)?.to ?? 0;
}

/** Bars for a picture: at most `most`, each as many whole bins wide as the others. */
export function bars(bins: Bin[], most: number): Bin[] {
  const first = binOf(bins[0]!.from);
  const last = binOf(bins.at(-1)!.from);
  const each = Math.max(1, Math.ceil((last - first + 1) / most));
  const n = Math.ceil((last - first + 1) / each);
  const out = Array.from({ length: n }, (_, i) => ({ from: edgeOf(first + i * each), to: edgeOf(first + (i + 1) * each), count: 0 }));
  for (const bin of bins) out[Math.floor((binOf(bin.from) - first) / each)]!.count += bin.count;
  return out;
}

/** One of a name's longest slices. */
export interface Longest {
  line: number;
  item: number;
  start: number;
  ns: number;
}

export function longestOf(row: NameRow): Longest[] {
  const { top } = row;
  if (!top?.length) return [{ line: row.line, item: row.item, start: row.start, ns: row.max }];
  return Array.from({ length: top.length / 4 }, (_, i) => ({ line: top[4 * i]!, item: top[4 * i + 1]!, start: top[4 * i + 2]!, ns: top[4 * i + 3]! }));
}
