// What the details panel says about one item.
import { KIND_BITS } from "./value";
import { argumentsOf, cell, SliceColumn, StateColumn, type Argument } from "./columns";
import { Kind, N_STATES, State } from "./index";
import { itemAt, itemNumber, overlap, Patience, scan, type Item } from "./query";
import type { Line, Recording } from "./recording";

/** A thread's time between two instants. */
export interface StateShare {
  /** ns in each state. */
  states: number[];
  /** ns running on each CPU. */
  cpus: Map<number, number>;
  /** Times it was taken off a CPU while it could run, and was put on another CPU than before. */
  preempted: number;
  migrated: number;
}

export interface SliceDetails {
  /** ns of the slice that no slice one level deeper covers. */
  self: number;
  share: StateShare | undefined;
  /** The slices around it, outermost first. */
  enclosing: Item[];
  args: Argument[];
  /** 1 + row of the index's objects; 0 none. */
  object: number;
  /** 1 + row of the task table; 0 none. */
  task: number;
  /** Bit 0: beginning not seen. Bit 1: end not seen. */
  open: number;
}

/** The lines of one kind that belong to one thread, CPU or lock: a thread has one for each depth of slices. */
export function linesOf(recording: Recording, kind: Kind, owner: number): Line[] {
  return recording.lines.filter((line) => line.kind === kind && line.owner === owner);
}

/**
 * What is known of one slice. Slices nest: line `depth` of a thread lies inside line `depth - 1`, so what encloses a slice
 * is found by its start in the lines above, and what it contains in the line right below.
 */
export async function sliceDetails(recording: Recording, item: Item, cancelled: () => boolean): Promise<SliceDetails> {
  const { line, unit, i } = item;
  const patience = new Patience(cancelled);
  const siblings = linesOf(recording, Kind.Slice, line.owner);
  const enclosing: Item[] = [];
  for (const above of siblings.filter((other) => other.depth < line.depth)) {
    const found = await itemAt(recording, above, item.start);
    // A slice that ends just where this one begins covers that instant too, but does not enclose it.
    if (found && found.end >= item.end) enclosing.push(found);
  }
  let inside = 0;
  const below = siblings.find((other) => other.depth === line.depth + 1);
  if (below) {
    await scan(recording, below, item.start, item.end, (other, i0, i1) => {
      for (let k = i0; k < i1; k++) inside += overlap(other.start[k]!, other.end[k]!, item.start, item.end);
    }, patience);
  }
  const [states] = linesOf(recording, Kind.State, line.owner);
  return {
    self: item.end - item.start - inside,
    share: states && (await stateShare(recording, states, item.start, item.end, patience)),
    enclosing,
    args: argumentsOf(unit, i),
    object: cell(unit, SliceColumn.Object, i),
    task: cell(unit, SliceColumn.Task, i),
    open: cell(unit, SliceColumn.KindOpen, i) >> KIND_BITS,
  };
}

/** What the scheduler did with the thread whose states `line` holds, between `t0` and `t1`. */
export async function stateShare(
  recording: Recording,
  line: Line,
  t0: number,
  t1: number,
  patience: Patience,
): Promise<StateShare> {
  const share: StateShare = { states: new Array<number>(N_STATES).fill(0), cpus: new Map(), preempted: 0, migrated: 0 };
  let lastCpu = -1;
  await scan(recording, line, t0, t1, (unit, i0, i1) => {
    for (let i = i0; i < i1; i++) {
      const ns = overlap(unit.start[i]!, unit.end[i]!, t0, t1);
      const state = unit.value[i]!;
      share.states[state]! += ns;
      // Only preemptions that happened in this time: one that was under way at `t0` belongs to the time before.
      if (state === State.Preempted && unit.start[i]! >= t0) share.preempted++;
      if (state !== State.Running) continue;
      const cpu = cell(unit, StateColumn.Cpu, i) - 1;
      if (lastCpu >= 0 && cpu !== lastCpu) share.migrated++;
      lastCpu = cpu;
      share.cpus.set(cpu, (share.cpus.get(cpu) ?? 0) + ns);
    }
  }, patience);
  return share;
}

export interface StateDetails {
  cpu: number;
  /** Waker or preemptor: thread, -1 none. */
  by: number;
  /** What came before and after in the same thread. */
  previous: Item | undefined;
  next: Item | undefined;
}

/** What the file knows about one state of a thread, and its neighbours in time. */
export async function stateDetails(recording: Recording, item: Item): Promise<StateDetails> {
  const { line, unit, i } = item;
  return {
    cpu: cell(unit, StateColumn.Cpu, i) - 1,
    by: cell(unit, StateColumn.By, i) - 1,
    previous: await itemNumber(recording, line, item.item - 1),
    next: await itemNumber(recording, line, item.item + 1),
  };
}

/** The next (or previous) item of the same line with the same value. */
export async function occurrence(
  recording: Recording,
  item: Item,
  direction: 1 | -1,
  cancelled: () => boolean,
): Promise<Item | undefined> {
  const { line } = item;
  const patience = new Patience(cancelled);
  // The item's unit; from there on unit by unit, without keeping them: the next of a name may be far away.
  let u = 0;
  while (line.base[u + 1]! <= item.item) u++;
  let i = item.i + direction;
  for (; u >= 0 && u < line.nUnits; u += direction) {
    const unit = await recording.unit(line, u, false);
    for (; i >= 0 && i < unit.n; i += direction) {
      if (unit.value[i] === item.value) return itemNumber(recording, line, line.base[u]! + i);
    }
    if (!(await patience.turn())) return undefined;
    // Going back, the last item of unit u - 1: `base` has the number of each unit's first item.
    i = direction === 1 ? 0 : line.base[u]! - (line.base[u - 1] ?? 0) - 1;
  }
  return undefined;
}

/** Totals of an area: by name of slices, by thread and state, by thread on CPUs. */
export interface AreaTotals {
  names: Map<number, { count: number; total: number; min: number; max: number }>;
  threads: Map<number, number[]>;
  cpus: Map<number, { busy: number; threads: Map<number, number> }>;
  locks: Map<number, { held: number; waited: number }>;
}

/** Adds up what `lines` hold between `t0` and `t1`; undefined when cancelled. */
export async function areaTotals(
  recording: Recording,
  lines: Line[],
  t0: number,
  t1: number,
  cancelled: () => boolean,
  progress: (part: number) => void = () => undefined,
): Promise<AreaTotals | undefined> {
  const totals: AreaTotals = { names: new Map(), threads: new Map(), cpus: new Map(), locks: new Map() };
  // By lock: how many of its lanes are holds.
  const holdLanes = recording.index.locks.map((lock) => lock.hold_lanes);
  const patience = new Patience(cancelled);
  for (const [n, line] of lines.entries()) {
    progress(n / lines.length);
    const go = await scan(recording, line, t0, t1, (unit, i0, i1) => {
      for (let i = i0; i < i1; i++) {
        const ns = overlap(unit.start[i]!, unit.end[i]!, t0, t1);
        // One that only touches the area is not in it.
        if (ns === 0 && unit.end[i]! > unit.start[i]!) continue;
        if (line.kind === Kind.Lock) addLock(totals, line, ns, holdLanes);
        else add(totals, line, unit.value[i]!, ns, unit.end[i]! - unit.start[i]!);
      }
    }, patience);
    if (!go) return undefined;
  }
  return totals;
}

/** Lanes of holds come before those of waits. */
function addLock(totals: AreaTotals, line: Line, ns: number, holdLanes: number[]): void {
  const row = totals.locks.get(line.owner) ?? { held: 0, waited: 0 };
  row[line.depth < holdLanes[line.owner]! ? "held" : "waited"] += ns;
  totals.locks.set(line.owner, row);
}

/** Adds an item by what its line is of. */
function add(totals: AreaTotals, line: Line, value: number, ns: number, length: number): void {
  if (line.kind === Kind.Slice) {
    // `ns` is the part inside the area; shortest and longest are of whole slices, or the area's edges would make short ones.
    const row = totals.names.get(value) ?? { count: 0, total: 0, min: Infinity, max: 0 };
    row.count++;
    row.total += ns;
    row.min = Math.min(row.min, length);
    row.max = Math.max(row.max, length);
    totals.names.set(value, row);
  } else if (line.kind === Kind.State) {
    const row = totals.threads.get(line.owner) ?? new Array<number>(N_STATES).fill(0);
    row[value]! += ns;
    totals.threads.set(line.owner, row);
  } else if (line.kind === Kind.Cpu) {
    const row = totals.cpus.get(line.owner) ?? { busy: 0, threads: new Map<number, number>() };
    row.busy += ns;
    row.threads.set(value - 1, (row.threads.get(value - 1) ?? 0) + ns);
    totals.cpus.set(line.owner, row);
  }
}
