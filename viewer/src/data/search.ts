// Which names are looked for, how many slices have them, and which is the next.
import { nameOf } from "./value";
import { Kind, type Index } from "./index";
import { itemOf, itemsBetween, type Item, Patience, unitsBetween } from "./query";
import type { Line, Recording } from "./recording";

/** What was typed: text anywhere in a name, whatever its case, or a regular expression as `/.../`. */
export interface Query {
  text: string;
  test: (name: string) => boolean;
  /** Why a regular expression is none. */
  error?: string;
}

/** What a person typed as a query; undefined where that is nothing. */
export function parseQuery(text: string): Query | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const regex = /^\/(.+)\/([imsu]*)$/.exec(trimmed);
  if (regex) {
    try {
      const compiled = new RegExp(regex[1]!, regex[2]);
      return { text: trimmed, test: (name) => compiled.test(name) };
    } catch (error) {
      return { text: trimmed, test: () => false, error: error instanceof Error ? error.message : String(error) };
    }
  }
  const lower = trimmed.toLowerCase();
  return { text: trimmed, test: (name) => name.toLowerCase().includes(lower) };
}

export interface Found {
  query: Query;
  /** By string: whether it matches. */
  matches: Uint8Array;
  /** Different names of slices that match, and how many slices have them. */
  names: number;
  slices: number;
  total: number;
}

/** Names are matched, not slices: ten million slices have a few hundred names. */
export function search(index: Index, query: Query): Found {
  const matches = Uint8Array.from(index.strings, (name) => (query.test(name) ? 1 : 0));
  const found: Found = { query, matches, names: 0, slices: 0, total: 0 };
  const names = new Set<number>();
  for (const row of index.names) {
    if (!matches[row.name]) continue;
    names.add(row.name);
    found.slices += row.count;
    found.total += row.total;
  }
  found.names = names.size;
  return found;
}

/** Lines that are searched: whatever has names. */
export function searched(line: Line): boolean {
  return line.kind !== Kind.Cpu && line.kind !== Kind.State && line.kind !== Kind.Counter;
}

/** Order of items in time; of two that start together the one in the earlier line is first. */
function before(aStart: number, aLine: number, bStart: number, bLine: number): boolean {
  return aStart < bStart || (aStart === bStart && aLine < bLine);
}

/** What is stepped through: slices that the search found, or those of one name in a range of durations. */
export type Wanted = (value: number, ns: number) => boolean;

export function wantedBy(found: Found): Wanted {
  return (value) => found.matches[nameOf(value)] === 1;
}

/**
 * The first match after (`direction` 1) or last before (-1) the item that starts at `from.start` in line `from.line`.
 * Each line is read from there until it has a match, or cannot have an earlier one than another line's.
 */
export async function next(
  recording: Recording,
  wanted: Wanted,
  from: { start: number; line: number },
  direction: 1 | -1,
  cancelled: () => boolean = () => false,
): Promise<Item | undefined> {
  const patience = new Patience(cancelled);
  let best: Item | undefined;
  for (const line of recording.lines) {
    if (!searched(line)) continue;
    const match = await nextIn(recording, line, wanted, from, direction, best, patience);
    if (match && (!best || earlier(match, best, direction))) best = match;
    if (cancelled()) return undefined;
  }
  return best;
}

function earlier(a: Item, b: Item, direction: 1 | -1): boolean {
  return direction === 1 ? before(a.start, a.line.ix, b.start, b.line.ix) : before(b.start, b.line.ix, a.start, a.line.ix);
}

/** The first match in one line; `best` is the best of other lines, beyond which there is no use to look. */
async function nextIn(
  recording: Recording,
  line: Line,
  wanted: Wanted,
  from: { start: number; line: number },
  direction: 1 | -1,
  best: Item | undefined,
  patience: Patience,
): Promise<Item | undefined> {
  const forward = direction === 1;
  // A match beyond the best one so far would not be the next: units past it need not be read.
  const [t0, t1] = forward ? [from.start, best?.start ?? Infinity] : [best?.start ?? -Infinity, from.start];
  const [first, last] = unitsBetween(line, t0, t1);
  for (let k = 0; k < last - first; k++) {
    const u = forward ? first + k : last - 1 - k;
    const unit = await recording.unit(line, u, false);
    if (!(await patience.turn())) return undefined;
    const [i0, i1] = itemsBetween(unit, t0, t1);
    for (let j = 0; j < i1 - i0; j++) {
      const i = forward ? i0 + j : i1 - 1 - j;
      const start = unit.start[i]!;
      if (!wanted(unit.value[i]!, unit.end[i]! - start)) continue;
      const after = before(from.start, from.line, start, line.ix);
      const same = start === from.start && line.ix === from.line;
      if (forward ? after : !after && !same) return itemOf(line, u, unit, i);
    }
  }
  return undefined;
}
