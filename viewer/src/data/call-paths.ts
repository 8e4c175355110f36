// The code that threads ran and waited in: frames, the tree of paths, and samples. Read when first wanted: most people who open a
// report of an annotated program never ask for it. The columns are those of crates/report/src/call_paths.rs.
import { cellBits, columnBytes, numbers, words } from "./columns";
import type { CallPathsRow, UnitRow } from "./index";
import type { Recording } from "./recording";

/** The kind of code that a function is, by the model's `FrameKind`; `Unknown` is one without a name. */
export const CodeKind = { Native: 0, Inlined: 1, Kernel: 2, Jit: 3, Interpreted: 4, Unknown: 5 } as const;
export const CODE_KINDS = ["native code", "inlined code", "kernel code", "JIT-compiled code", "interpreted code", "code without a name"] as const;

/** The moment at which a sample was taken, by the model's `SampleKind`. */
export const Moment = { OnCpu: 0, Blocked: 1, BlockedRead: 2, Waker: 3, LockWait: 4 } as const;
/** Of a sample's `bits`: its moment, and whether its path is whole. */
export const MOMENT_BITS = 15;
export const COMPLETE = 16;

/** A function, or a place in code that has no name: what a box of a flame graph is. */
export interface CodeFunction {
  /** What it is called on the screen. */
  name: string;
  /** Path of the program or library; "" not known. */
  module: string;
  kind: number;
}

/** A place in a function: a row of the file's frames. */
export interface Frames {
  /** Row of the functions. */
  fn: Uint32Array;
  /** Row of the index's strings, -1 not known. */
  file: Int32Array;
  /** 0 not known. */
  line: Uint32Array;
}

/**
 * Samples of all threads, those of thread `t` in rows `[first[t], first[t + 1])` in order of time. A sample stands for `weight` ns:
 * at `time` where the thread ran, spread over the wait `[begin, end]` where it waited.
 */
export interface Samples {
  first: Uint32Array;
  time: Float64Array;
  /** {@link Moment}, and 16 when the path reaches the thread's outermost frame. */
  bits: Uint8Array;
  /** Row of the paths, -1 nothing is known. */
  path: Int32Array;
  weight: Float64Array;
  begin: Float64Array;
  end: Float64Array;
}

/**
 * A tree of functions: paths that differ only in lines are one node. A caller stands before what it calls, so a pass from the
 * last node to the first adds up what is called before its caller.
 */
export interface CodeTree {
  n: number;
  /** Row of the functions, by node. */
  fn: Uint32Array;
  /** -1: outermost. */
  caller: Int32Array;
  /** First node called by this one, and the next one of the same caller; -1 none. `firstRoot` begins the outermost ones. */
  child: Int32Array;
  next: Int32Array;
  firstRoot: number;
}

/** ns that no sample stands for, of threads on a CPU and blocked: row-major [thread][cell], cells are equal parts of the axis. */
export interface Unsampled {
  cells: number;
  /** ns of a cell. */
  width: number;
  running: Float64Array;
  waiting: Float64Array;
}

export interface CallPaths {
  functions: CodeFunction[];
  frames: Frames;
  /** By path: row of the frames, and of the path of the caller, -1 outermost. */
  frame: Uint32Array;
  caller: Int32Array;
  tree: CodeTree;
  /** By path: its node of the tree. */
  node: Int32Array;
  samples: Samples;
  unsampled: Unsampled;
}

export function momentOf(samples: Samples, i: number): number {
  return samples.bits[i]! & MOMENT_BITS;
}

/** Whether a sample shows the call that a thread waited in. */
export function isWaitMoment(moment: number): boolean {
  return moment === Moment.Blocked || moment === Moment.BlockedRead || moment === Moment.LockWait;
}

/** The last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** Reads call paths when they are first asked for, and only once. */
export class CallPathTable {
  private coming: Promise<CallPaths> | undefined;
  private table: CallPaths | undefined;

  constructor(private readonly recording: Recording) {}

  get exists(): boolean {
    return this.recording.index.call_paths !== undefined;
  }

  /** What was read; asks for it, and calls `later` when it is there. */
  peek(later: () => void): CallPaths | undefined {
    if (!this.table && !this.coming && this.exists) void this.read().then(later, console.error);
    return this.table;
  }

  read(): Promise<CallPaths> {
    this.coming ??= readAll(this.recording).then((table) => (this.table = table));
    return this.coming;
  }
}

async function readAll(recording: Recording): Promise<CallPaths> {
  const row = recording.index.call_paths;
  if (!row) throw new Error("the recording has no samples of call paths");
  const { functions, frames } = await readFrames(recording, row);
  const { frame, caller } = await readPaths(recording, row);
  const samples = await readSamples(recording, row);
  const unsampled = await readUnsampled(recording, row);
  return { functions, frames, frame, caller, samples, unsampled, ...treeOf(frame, caller, frames.fn) };
}

/** The columns of a unit: where each begins. */
function columnsAt(bytes: Uint8Array, offset: number, n: number, columns: number): number[] {
  const at: number[] = [];
  for (let c = 0, next = offset; c < columns; c++) {
    at.push(next);
    next += columnBytes(bytes, next, n);
  }
  return at;
}

async function readFrames(recording: Recording, row: CallPathsRow): Promise<{ functions: CodeFunction[]; frames: Frames }> {
  const n = row.n_frames;
  const frames: Frames = { fn: new Uint32Array(n), file: new Int32Array(n), line: new Uint32Array(n) };
  const functions: CodeFunction[] = [];
  const known = new Map<string, number>();
  let from = 0;
  for (const [block, part, count] of row.frames) {
    const { bytes, offset } = await recording.part(block, part);
    const at = columnsAt(bytes, offset, count, 6);
    const [names, modules, files, lines, , kinds] = at.map((column) => words(bytes, column, count)) as [Uint32Array, Uint32Array, Uint32Array, Uint32Array, Uint32Array, Uint32Array];
    for (let i = 0; i < count; i++) {
      const address = names[i] === 0 ? cellBits(bytes, at[4]!, count, i) : 0n;
      const key = `${names[i]} ${modules[i]} ${kinds[i]} ${address}`;
      let fn = known.get(key);
      if (fn === undefined) {
        fn = functions.length;
        known.set(key, fn);
        const module = modules[i] === 0 ? "" : recording.text(modules[i]! - 1);
        const name = names[i] === 0 ? `${module === "" ? "" : `${baseName(module)}+`}0x${address.toString(16)}` : recording.text(names[i]! - 1);
        functions.push({ name, module, kind: names[i] === 0 && kinds[i] === CodeKind.Native ? CodeKind.Unknown : kinds[i]! });
      }
      frames.fn[from + i] = fn;
      frames.file[from + i] = files[i]! - 1;
      frames.line[from + i] = lines[i]!;
    }
    from += count;
  }
  return { functions, frames };
}

async function readPaths(recording: Recording, row: CallPathsRow): Promise<{ frame: Uint32Array; caller: Int32Array }> {
  const frame = new Uint32Array(row.n_paths);
  const caller = new Int32Array(row.n_paths);
  let from = 0;
  for (const [block, part, count] of row.paths) {
    const { bytes, offset } = await recording.part(block, part);
    const [backAt, frameAt] = columnsAt(bytes, offset, count, 2) as [number, number];
    frame.set(words(bytes, frameAt, count), from);
    const back = words(bytes, backAt, count);
    for (let i = 0; i < count; i++) caller[from + i] = back[i] === 0 ? -1 : from + i - back[i]!;
    from += count;
  }
  return { frame, caller };
}

async function readUnsampled(recording: Recording, { cells, unsampled: units }: CallPathsRow): Promise<Unsampled> {
  const n = recording.index.threads.length * cells;
  const unsampled: Unsampled = { cells, width: Math.max(1, Math.ceil(recording.length / cells)), running: new Float64Array(n), waiting: new Float64Array(n) };
  for (const [block, part, count] of units) {
    const { bytes, offset } = await recording.part(block, part);
    const [gapAt, runningAt, waitingAt] = columnsAt(bytes, offset, count, 3) as [number, number, number];
    const gap = numbers(bytes, gapAt, count);
    const running = numbers(bytes, runningAt, count);
    const waiting = numbers(bytes, waitingAt, count);
    // The first of a unit counts from 0.
    let cell = 0;
    for (let i = 0; i < count; i++) {
      cell += gap[i]!;
      unsampled.running[cell] = running[i]!;
      unsampled.waiting[cell] = waiting[i]!;
    }
  }
  return unsampled;
}

async function readSamples(recording: Recording, row: CallPathsRow): Promise<Samples> {
  const n = row.n_samples;
  const floats = (): Float64Array => new Float64Array(n);
  const nThreads = recording.index.threads.length;
  const samples: Samples = { first: new Uint32Array(nThreads + 1), time: floats(), bits: new Uint8Array(n), path: new Int32Array(n), weight: floats(), begin: floats(), end: floats() };
  let from = 0;
  for (const [thread, ...unit] of row.samples) {
    await readUnit(recording, unit, samples, from);
    from += unit[2];
    // Units come in the order of threads: what comes after this thread begins here or later.
    samples.first.fill(from, thread + 1);
  }
  return samples;
}

/** Decodes the samples of one unit into the rows from `from` on. */
async function readUnit(recording: Recording, [block, part, n, begun]: UnitRow, samples: Samples, from: number): Promise<void> {
  const { bytes, offset } = await recording.part(block, part);
  const at = columnsAt(bytes, offset, n, 6);
  const gap = numbers(bytes, at[0]!, n);
  const bits = words(bytes, at[1]!, n);
  const path = words(bytes, at[2]!, n);
  const weight = numbers(bytes, at[3]!, n);
  const since = numbers(bytes, at[4]!, n);
  const rest = numbers(bytes, at[5]!, n);
  let now = begun;
  for (let i = 0; i < n; i++) {
    now += gap[i]!;
    const row = from + i;
    samples.time[row] = now;
    samples.bits[row] = bits[i]!;
    samples.path[row] = path[i]! - 1;
    samples.weight[row] = weight[i]!;
    const begin = now - signed(since[i]!);
    samples.begin[row] = begin;
    // A thread that runs has no stretch.
    samples.end[row] = isWaitMoment(bits[i]! & MOMENT_BITS) ? begin + weight[i]! + signed(rest[i]!) : now;
  }
}

/** The number behind a zigzag one: 0, 1, 2, 3 are 0, -1, 1, -2. */
function signed(zigzag: number): number {
  return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
}

/** Joins paths of the same functions: one pass, since callers stand before what they call. */
export function treeOf(frame: Uint32Array, caller: Int32Array, fnOf: Uint32Array): { tree: CodeTree; node: Int32Array } {
  const paths = frame.length;
  const node = new Int32Array(paths);
  const fn = new Uint32Array(paths);
  const up = new Int32Array(paths);
  const child = new Int32Array(paths).fill(-1);
  const next = new Int32Array(paths).fill(-1);
  // By caller's node and function; a number as key is several times faster than a text.
  const known = new Map<number, number>();
  const functions = fnOf.reduce((most, f) => Math.max(most, f), 0) + 1;
  let n = 0;
  let firstRoot = -1;
  for (let path = 0; path < paths; path++) {
    const callerNode = caller[path]! < 0 ? -1 : node[caller[path]!]!;
    const f = fnOf[frame[path]!]!;
    const key = (callerNode + 1) * functions + f;
    let at = known.get(key);
    if (at === undefined) {
      at = n++;
      known.set(key, at);
      fn[at] = f;
      up[at] = callerNode;
      if (callerNode < 0) {
        next[at] = firstRoot;
        firstRoot = at;
      } else {
        next[at] = child[callerNode]!;
        child[callerNode] = at;
      }
    }
    node[path] = at;
  }
  return { node, tree: { n, fn: fn.slice(0, n), caller: up.slice(0, n), child: child.slice(0, n), next: next.slice(0, n), firstRoot } };
}
