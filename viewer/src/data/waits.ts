// Why a thread did not run during a time: who ended each of its waits, who took its CPU, who held the lock.
import { kindOf } from "./value";
import { cell, StateColumn } from "./columns";
import { Kind, SliceKind, State } from "./index";
import { itemAt, overlap, type Patience, scan, type Item } from "./query";
import type { Line, Recording } from "./recording";

/** What one other thread (or an interrupt, -1) is answerable for. */
export interface Blame {
  thread: number;
  count: number;
  total: number;
  /** The longest single wait: its state item's start and length. */
  start: number;
  longest: number;
}

export interface Waits {
  /** Blocked time by who woke the thread out of it. */
  wakers: Blame[];
  /** Time off a CPU by who took it. */
  preemptors: Blame[];
  /** Woken, but without a CPU yet. */
  queued: Blame | undefined;
  /** Blocked to the end of the time: nobody woke it. */
  open: number;
}

/** Sums by the thread that is answerable. */
class Ledger {
  readonly rows = new Map<number, Blame>();

  add(thread: number, ns: number, start: number): void {
    // `longest` begins at -1, so that the first wait sets `start` even if it lasted no time.
    const row = this.rows.get(thread) ?? { thread, count: 0, total: 0, start, longest: -1 };
    row.count++;
    row.total += ns;
    if (ns > row.longest) [row.longest, row.start] = [ns, start];
    this.rows.set(thread, row);
  }

  sorted(): Blame[] {
    return [...this.rows.values()].sort((a, b) => b.total - a.total);
  }
}

/** The waits of the thread of `line` (its states) between `t0` and `t1`. */
export async function waitsOf(recording: Recording, line: Line, t0: number, t1: number, patience: Patience): Promise<Waits> {
  const wakers = new Ledger();
  const preemptors = new Ledger();
  const queued = new Ledger();
  // The wait that is under way: ns of it inside the time, and when it began. Several states in a row (asleep, then in
  // uninterruptible sleep) are one wait, which ends when the thread is woken.
  let blocked = 0;
  let since = 0;
  await scan(recording, line, t0, t1, (unit, i0, i1) => {
    for (let i = i0; i < i1; i++) {
      const state = unit.value[i]!;
      const ns = overlap(unit.start[i]!, unit.end[i]!, t0, t1);
      const by = (): number => cell(unit, StateColumn.By, i) - 1;
      if (state === State.Woken) {
        if (blocked > 0) wakers.add(by(), blocked, since);
        if (ns > 0) queued.add(by(), ns, unit.start[i]!);
        blocked = 0;
      } else if (state === State.Preempted) {
        if (ns > 0) preemptors.add(by(), ns, unit.start[i]!);
        blocked = 0;
      } else if (state === State.Running) {
        // Blocked and then running without having been seen woken: a loss; charge nobody.
        blocked = 0;
      } else if (ns > 0) {
        if (blocked === 0) since = unit.start[i]!;
        blocked += ns;
      }
    }
  }, patience);
  // Who woke the thread does not matter for the time in the queue: all rows become one.
  const all = queued.sorted();
  const queue = all.length === 0 ? undefined : all.reduce((a, b) => ({ thread: -1, count: a.count + b.count, total: a.total + b.total, ...(a.longest >= b.longest ? { longest: a.longest, start: a.start } : { longest: b.longest, start: b.start }) }));
  return { wakers: wakers.sorted(), preemptors: preemptors.sorted(), queued: queue, open: blocked };
}

/** Who held lock `object` between `t0` and `t1`. */
export async function holders(recording: Recording, object: string, process: number, t0: number, t1: number, patience: Patience): Promise<Blame[]> {
  const l = recording.index.locks.findIndex((lock) => lock.object === object && lock.process === process);
  const lock = recording.index.locks[l];
  if (!lock) return [];
  const ledger = new Ledger();
  for (const line of recording.lines) {
    if (line.kind !== Kind.Lock || line.owner !== l || line.depth >= lock.hold_lanes) continue;
    await scan(recording, line, t0, t1, (unit, i0, i1) => {
      for (let i = i0; i < i1; i++) {
        const ns = overlap(unit.start[i]!, unit.end[i]!, t0, t1);
        if (ns > 0) ledger.add(unit.value[i]! - 1, ns, unit.start[i]!);
      }
    }, patience);
  }
  return ledger.sorted();
}

/** The slice behind an item of a lock's row, in its thread's rows. */
export async function sliceOfLock(recording: Recording, item: Item): Promise<Item | undefined> {
  const thread = item.value - 1;
  for (const line of recording.lines) {
    if (line.kind !== Kind.Slice || line.owner !== thread) continue;
    const found = await itemAt(recording, line, item.start);
    if (found?.start === item.start && found.end === item.end && kindOf(found.value) >= SliceKind.LockWait) return found;
  }
  return undefined;
}
