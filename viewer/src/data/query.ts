// Questions about items: which is here, which overlap a time, what do they add up to.
import { type Unit } from "./columns";
import { type Line, type Recording } from "./recording";

/** One item of a line. */
export interface Item {
  line: Line;
  /** Number in the line. */
  item: number;
  unit: Unit;
  /** Number in the unit. */
  i: number;
  start: number;
  end: number;
  value: number;
}

/** First index in `[0, n)` for which `less` is false. */
export function partition(n: number, less: (i: number) => boolean): number {
  let low = 0;
  let high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (less(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Units of `line` that may hold items overlapping `[t0, t1]`: `[first, last)`. */
export function unitsBetween(line: Line, t0: number, t1: number): [number, number] {
  const first = partition(line.nUnits, (u) => line.to[u]! < t0);
  const last = partition(line.nUnits, (u) => line.from[u]! <= t1);
  return [first, Math.max(first, last)];
}

/** Items of `unit` that overlap `[t0, t1]`: `[first, last)`. */
export function itemsBetween(unit: Unit, t0: number, t1: number): [number, number] {
  const first = partition(unit.n, (i) => unit.end[i]! < t0);
  const last = partition(unit.n, (i) => unit.start[i]! <= t1);
  return [first, Math.max(first, last)];
}

export function itemOf(line: Line, u: number, unit: Unit, i: number): Item {
  return {
    line,
    item: line.base[u]! + i,
    unit,
    i,
    start: unit.start[i]!,
    end: unit.end[i]!,
    value: unit.value[i]!,
  };
}

/** Item number `item` of `line`. */
export async function itemNumber(recording: Recording, line: Line, item: number): Promise<Item | undefined> {
  if (item < 0 || item >= line.items) return undefined;
  const u = partition(line.nUnits, (u) => line.base[u + 1]! <= item);
  const unit = await recording.unit(line, u);
  return itemOf(line, u, unit, item - line.base[u]!);
}

/** The longest item that overlaps `[t0, t1]`, and how many do. At most two units are read. */
export async function longestBetween(
  recording: Recording,
  line: Line,
  t0: number,
  t1: number,
): Promise<{ item: Item; count: number } | undefined> {
  const [first, last] = unitsBetween(line, t0, t1);
  let best: Item | undefined;
  let count = 0;
  for (let u = first; u < Math.min(last, first + 2); u++) {
    const unit = await recording.unit(line, u);
    const [i0, i1] = itemsBetween(unit, t0, t1);
    for (let i = i0; i < i1; i++) {
      count++;
      if (!best || unit.end[i]! - unit.start[i]! > best.end - best.start) best = itemOf(line, u, unit, i);
    }
  }
  return best && { item: best, count };
}

/** The item that covers `t`, if any. */
export async function itemAt(recording: Recording, line: Line, t: number): Promise<Item | undefined> {
  const [first, last] = unitsBetween(line, t, t);
  for (let u = last - 1; u >= first; u--) {
    const unit = await recording.unit(line, u);
    const i = partition(unit.n, (i) => unit.start[i]! <= t) - 1;
    if (i >= 0 && unit.end[i]! >= t) return itemOf(line, u, unit, i);
  }
  return undefined;
}

/** Lets the page draw and answer now and then during long work. */
export class Patience {
  private since = performance.now();
  constructor(private readonly cancelled: () => boolean = () => false) {}

  /** Whether to go on. */
  async turn(): Promise<boolean> {
    if (performance.now() - this.since > 10) {
      await new Promise((resolve) => setTimeout(resolve, 0));
      this.since = performance.now();
    }
    return !this.cancelled();
  }
}

/** Calls `visit` for each run of items of `line` that overlaps `[t0, t1]`; false when it was cancelled. */
export async function scan(
  recording: Recording,
  line: Line,
  t0: number,
  t1: number,
  visit: (unit: Unit, i0: number, i1: number, u: number) => void,
  patience = new Patience(),
): Promise<boolean> {
  const [first, last] = unitsBetween(line, t0, t1);
  for (let u = first; u < last; u++) {
    const unit = await recording.unit(line, u, false);
    const [i0, i1] = itemsBetween(unit, t0, t1);
    visit(unit, i0, i1, u);
    if (!(await patience.turn())) return false;
  }
  return true;
}

/** ns of `[start, end]` inside `[t0, t1]`. */
export function overlap(start: number, end: number, t0: number, t1: number): number {
  return Math.max(0, Math.min(end, t1) - Math.max(start, t0));
}
