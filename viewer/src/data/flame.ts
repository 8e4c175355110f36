// Time by code: the samples of a part of the recording added up by path, and the trees of boxes that a flame graph draws.
//
// A tree of boxes is worked out where it is looked at: a box makes the boxes below it when it is drawn wide enough to be seen.
import { baseName, CodeKind, COMPLETE, isWaitMoment, Moment, MOMENT_BITS, momentOf, type CallPaths, type CodeTree, type Samples, type Unsampled } from "./call-paths";
import { overlap, partition } from "./query";

/** What is added up: times of some threads, each list in order and without overlaps. */
export interface CodeQuery {
  threads: readonly number[];
  /** ns on the file's axis: the same for all threads, or by thread. */
  spans: (thread: number) => readonly (readonly [number, number])[];
}

/** ns by path, of threads that ran and that waited: each path's own, not its callers'. `...Lost`: samples without any path. */
export interface CodeTimes {
  running: Float64Array;
  waiting: Float64Array;
  runningLost: number;
  waitingLost: number;
  /** ns that no sample stands for; where a span ends inside a cell, the cell's share. */
  runningUnsampled: number;
  waitingUnsampled: number;
  /** Samples of threads that ran. */
  runningSamples: number;
  /** All samples counted, and the ns that they stand for by whether their stack is whole. */
  samples: number;
  complete: number;
  incomplete: number;
  /** The part of `complete` of threads that ran. */
  runningComplete: number;
}

/** Samples that a wait's sample may stand away from the edge of a span that its wait reaches into: several may be of one wait. */
const NEAR = 4;

/** Adds up the samples of `query`. */
export function addUp({ samples, frame, unsampled }: CallPaths, query: CodeQuery): CodeTimes {
  const times: CodeTimes = { running: new Float64Array(frame.length), waiting: new Float64Array(frame.length), runningLost: 0, waitingLost: 0, runningUnsampled: 0, waitingUnsampled: 0, runningSamples: 0, samples: 0, complete: 0, incomplete: 0, runningComplete: 0 };
  for (const thread of query.threads) {
    const first = samples.first[thread]!;
    const last = samples.first[thread + 1]!;
    for (const [t0, t1] of query.spans(thread)) {
      addUnsampled(times, unsampled, thread, t0, t1);
      const from = first + partition(last - first, (i) => samples.time[first + i]! < t0);
      const to = first + partition(last - first, (i) => samples.time[first + i]! <= t1);
      // Waits that reach into the span from a sample before or after it.
      addSamples(times, samples, Math.max(first, from - NEAR), Math.min(last, to + NEAR), t0, t1);
    }
  }
  return times;
}

function addUnsampled(times: CodeTimes, { cells, width, running, waiting }: Unsampled, thread: number, t0: number, t1: number): void {
  for (let cell = Math.max(0, Math.floor(t0 / width)); cell < cells && cell * width < t1; cell++) {
    const share = overlap(cell * width, (cell + 1) * width, t0, t1) / width;
    times.runningUnsampled += running[thread * cells + cell]! * share;
    times.waitingUnsampled += waiting[thread * cells + cell]! * share;
  }
}

/** Adds what samples `[from, to)` stand for between `t0` and `t1`. One loop without calls: there may be a million. */
function addSamples(times: CodeTimes, samples: Samples, from: number, to: number, t0: number, t1: number): void {
  const { time, begin, end, weight, bits, path } = samples;
  const { running, waiting } = times;
  // Running samples by whether their stack is whole; those of waits are added to the sums at once.
  let n = 0;
  let ran = 0;
  let whole = 0;
  let cut = 0;
  for (let i = from; i < to; i++) {
    const isRun = (bits[i]! & MOMENT_BITS) === Moment.OnCpu;
    let ns = weight[i]!;
    // Half open, so that two spans that meet count a sample at their border once. What runs has no stretch: two columns are not read.
    if (isRun || end[i]! <= begin[i]!) {
      if (time[i]! < t0 || time[i]! >= t1) continue;
    } else ns *= overlap(begin[i]!, end[i]!, t0, t1) / (end[i]! - begin[i]!);
    if (ns === 0) continue;
    n++;
    const at = path[i]!;
    const complete = (bits[i]! & COMPLETE) !== 0;
    if (isRun) {
      ran++;
      if (at < 0) times.runningLost += ns;
      else running[at]! += ns;
      if (complete) whole += ns;
      else cut += ns;
    } else {
      if (at < 0) times.waitingLost += ns;
      else waiting[at]! += ns;
      if (complete) times.complete += ns;
      else times.incomplete += ns;
    }
  }
  times.samples += n;
  times.runningSamples += ran;
  times.complete += whole;
  times.runningComplete += whole;
  times.incomplete += cut;
}

/** Each row's own time and that of all rows below it; callers stand before what they call. */
function totals(caller: Int32Array, own: Float64Array): Float64Array {
  const total = own.slice();
  for (let row = own.length - 1; row >= 0; row--) {
    const above = caller[row]!;
    if (above >= 0) total[above]! += total[row]!;
  }
  return total;
}

/** ns of one sort, running or waiting: by path and by node of the tree, in the function itself and with what it called. */
export class Weights {
  readonly tree: CodeTree;
  readonly own: Float64Array;
  readonly total: Float64Array;
  /** All that was added up. */
  readonly sum: number;
  /** By function: scratch of who makes boxes. */
  readonly boxOf: Uint32Array;
  private pathTotal: Float64Array | undefined;

  /** `own`: by path; `lost`: ns of samples without one. */
  constructor(
    private readonly paths: CallPaths,
    private readonly ownByPath: Float64Array,
    readonly lost: number,
  ) {
    const { tree, node } = paths;
    this.tree = tree;
    this.boxOf = new Uint32Array(paths.functions.length);
    const own = (this.own = new Float64Array(tree.n));
    for (let path = 0; path < ownByPath.length; path++) own[node[path]!]! += ownByPath[path]!;
    this.total = totals(tree.caller, own);
    let sum = lost;
    for (let node = 0; node < tree.n; node++) sum += own[node]!;
    this.sum = sum;
  }

  /** The frames behind `nodes`, those with most time first: the lines of a function. */
  lines(nodes: readonly number[]): { frame: number; ns: number }[] {
    const { caller, frame, node } = this.paths;
    this.pathTotal ??= totals(caller, this.ownByPath);
    const wanted = new Set(nodes);
    const found = new Map<number, number>();
    node.forEach((of, path) => {
      if (wanted.has(of) && this.pathTotal![path]! > 0) found.set(frame[path]!, (found.get(frame[path]!) ?? 0) + this.pathTotal![path]!);
    });
    return [...found].map(([frame, ns]) => ({ frame, ns })).sort((a, b) => b.ns - a.ns);
  }
}

/** A box that stands for more than a function. */
export const Group = { All: -1, Running: -2, Waiting: -3, NoStack: -4 } as const;

/** A box of a flame graph. */
export interface Box {
  /** Row of the functions, or a {@link Group}. */
  fn: number;
  total: number;
  /** ns in the function itself, without what it called. */
  self: number;
  parent: Box | undefined;
  /** The nodes of the tree behind it, and the times that they are of. */
  nodes: readonly number[];
  weights: Weights | undefined;
  /** Largest first. */
  children(): Box[];
  /** Of a comparison, whose times are shares: the box on either side. */
  sides?: readonly [Side, Side];
}

/** A box of a comparison on one of its sides: `box` is undefined where it is not there. Shares are of all time of that side. */
export interface Side {
  box: Box | undefined;
  total: number;
  self: number;
}

type Make = (parent: Box) => Box[];

/** A box whose children are made when they are first asked for. */
export function box(of: Omit<Box, "children">, make: Make): Box {
  let made: Box[] | undefined;
  const it: Box = { ...of, children: () => (made ??= make(it).sort(bySize)) };
  return it;
}

const nothing: Make = () => [];

/** Groups `nodes` by a key; in order of appearance. */
function grouped(nodes: Iterable<number>, key: (node: number) => number): Map<number, number[]> {
  const groups = new Map<number, number[]>();
  for (const node of nodes) {
    const k = key(node);
    const group = groups.get(k);
    if (group) group.push(node);
    else groups.set(k, [node]);
  }
  return groups;
}

/** A function with what it calls. A flame graph has ten thousand: a class, since an object with functions of its own for each takes three times as long. */
class CalleeBox implements Box {
  private made: Box[] | undefined;

  constructor(
    readonly fn: number,
    public total: number,
    public self: number,
    readonly parent: Box | undefined,
    readonly nodes: number[],
    readonly weights: Weights,
  ) {}

  children(): Box[] {
    return (this.made ??= calleeBoxes(this.weights, this.nodes, this));
  }
}

/** The largest first. */
const bySize = (a: Box, b: Box): number => b.total - a.total || a.fn - b.fn;

/** Boxes of the nodes that `callers` call, or, without these, of the outermost ones: nodes of one function are one box. */
function calleeBoxes(weights: Weights, callers: readonly number[] | undefined, parent: Box | undefined): Box[] {
  const { tree, own, total, boxOf } = weights;
  const boxes: CalleeBox[] = [];
  const add = (first: number): void => {
    for (let node = first; node >= 0; node = tree.next[node]!) {
      const ns = total[node]!;
      if (ns <= 0) continue;
      const fn = tree.fn[node]!;
      const known = boxes[boxOf[fn]!];
      // What is left in `boxOf` from before names a box of another function, or none.
      if (known?.fn === fn) {
        known.nodes.push(node);
        known.total += ns;
        known.self += own[node]!;
      } else {
        boxOf[fn] = boxes.length;
        boxes.push(new CalleeBox(fn, ns, own[node]!, parent, [node], weights));
      }
    }
  };
  if (callers) for (const node of callers) add(tree.child[node]!);
  else add(tree.firstRoot);
  return boxes.length > 1 ? boxes.sort(bySize) : boxes;
}

/** Boxes of the functions of `entries` (ns by node), and below each those of its callers, with the ns that came through them. */
function callerBoxes(weights: Weights, entries: ReadonlyMap<number, number>, parent: Box | undefined): Box[] {
  const { tree } = weights;
  return [...grouped(entries.keys(), (node) => tree.fn[node]!)].map(([fn, nodes]) => {
    const callers = new Map<number, number>();
    let total = 0;
    for (const node of nodes) {
      const ns = entries.get(node)!;
      total += ns;
      const caller = tree.caller[node]!;
      if (caller >= 0) callers.set(caller, (callers.get(caller) ?? 0) + ns);
    }
    const above = [...callers.values()].reduce((sum, ns) => sum + ns, 0);
    // What has no caller ends here.
    return box({ fn, total, self: total - above, parent, nodes, weights }, (self) => callerBoxes(weights, callers, self));
  });
}

/** A box that is not of a function. */
function group(fn: number, total: number, parent: Box | undefined, make: Make): Box {
  return box({ fn, total, self: 0, parent, nodes: [], weights: undefined }, make);
}

function noStack(lost: number, parent: Box): Box[] {
  return lost > 0 ? [group(Group.NoStack, lost, parent, nothing)] : [];
}

/** All of `weights`, callers above what they call; `fn` is the {@link Group} of the outermost box. */
export function calleeTree(weights: Weights, fn: number, parent?: Box): Box {
  return group(fn, weights.sum, parent, (self) => [...calleeBoxes(weights, undefined, self), ...noStack(weights.lost, self)]);
}

/** All of `weights` by the function that ran or waited, and below each its callers. */
export function callerTree(weights: Weights, fn: number, parent?: Box): Box {
  const entries = (): Map<number, number> => {
    const found = new Map<number, number>();
    weights.own.forEach((ns, node) => ns > 0 && found.set(node, ns));
    return found;
  };
  return group(fn, weights.sum, parent, (self) => [...callerBoxes(weights, entries(), self), ...noStack(weights.lost, self)]);
}

/** Both sorts side by side. */
export function bothTrees(running: Weights, waiting: Weights, tree: (weights: Weights, fn: number, parent: Box) => Box): Box {
  return group(Group.All, running.sum + waiting.sum, undefined, (self) => [tree(running, Group.Running, self), tree(waiting, Group.Waiting, self)].filter((part) => part.total > 0));
}

/**
 * One function with all that it calls, and with all its callers. A recursive function is counted once on each path: at its
 * outermost call, so both have the same total.
 */
export function sandwich(weights: Weights, fn: number): { callees: Box; callers: Box } {
  const { tree, total } = weights;
  const outermost: number[] = [];
  // Whether the function is among a node's callers: a caller's answer stands before its callee's question.
  const inside = new Uint8Array(tree.n);
  for (let node = 0; node < tree.n; node++) {
    const caller = tree.caller[node]!;
    const above = caller >= 0 && (inside[caller] === 1 || tree.fn[caller] === fn);
    inside[node] = above ? 1 : 0;
    if (!above && tree.fn[node] === fn && total[node]! > 0) outermost.push(node);
  }
  const sum = (of: Float64Array): number => outermost.reduce((ns, node) => ns + of[node]!, 0);
  const callees = outermost.length > 0 ? new CalleeBox(fn, sum(total), sum(weights.own), undefined, outermost, weights) : undefined;
  const [callers] = callerBoxes(weights, new Map(outermost.map((node) => [node, total[node]!])), undefined);
  const none = group(fn, 0, undefined, nothing);
  return { callees: callees ?? none, callers: callers ?? none };
}

/** ns of the samples whose path holds a function for which `matches` is 1. */
export function matched({ tree, own }: Weights, matches: Uint8Array): number {
  const inside = new Uint8Array(tree.n);
  let ns = 0;
  for (let node = 0; node < tree.n; node++) {
    const caller = tree.caller[node]!;
    inside[node] = matches[tree.fn[node]!]! | (caller >= 0 ? inside[caller]! : 0);
    if (inside[node] === 1) ns += own[node]!;
  }
  return ns;
}

/** A row of the table of functions. */
export interface FunctionTime {
  fn: number;
  self: number;
  /** With all that it called; of a recursive function once. */
  total: number;
}

export function byFunction({ tree, own, total }: Weights, functions: number): FunctionTime[] {
  const self = new Float64Array(functions);
  const all = new Float64Array(functions);
  for (let node = 0; node < tree.n; node++) {
    const fn = tree.fn[node]!;
    self[fn]! += own[node]!;
    if (total[node]! > 0 && !hasCaller(tree, node, fn)) all[fn]! += total[node]!;
  }
  return Array.from(all, (total, fn) => ({ fn, self: self[fn]!, total })).filter((row) => row.total > 0);
}

/** Whether `fn` is among the callers of `node`. */
function hasCaller(tree: CodeTree, node: number, fn: number): boolean {
  for (let at = tree.caller[node]!; at >= 0; at = tree.caller[at]!) if (tree.fn[at] === fn) return true;
  return false;
}

/** The frames of a path, innermost first: rows of the frames. */
export function framesOf({ frame, caller }: CallPaths, path: number): number[] {
  const frames: number[] = [];
  for (let at = path; at >= 0; at = caller[at]!) frames.push(frame[at]!);
  return frames;
}

// Code that is the system for those who wait, and functions that begin every thread, as for `kasuri_analyze`'s `call_paths::frames`.
const SYSTEM = /^(libc\.so|libc-|libpthread|ld-linux|ld-musl|ld-2|libm\.so|libm-|librt\.|libstdc\+\+\.so|\[vdso\]|linux-vdso)/;
const START = /^(_start$|__libc_start|start_thread$|__clone$|clone$|clone3|execute_native_thread_routine$)/;

/** The call that a thread waits in: the outermost one into the kernel or the C library that has a name; undefined: its own code waits. */
export function waitingCall(paths: CallPaths, path: number): string | undefined {
  let call: string | undefined;
  for (const frame of framesOf(paths, path)) {
    const { name, module, kind } = paths.functions[paths.frames.fn[frame]!]!;
    if ((kind !== CodeKind.Kernel && !SYSTEM.test(baseName(module))) || START.test(name)) break;
    if (kind !== CodeKind.Unknown) call = name;
  }
  return call;
}

/** The on-CPU sample of `thread` in `[t0, t1]` that is nearest to `t`; -1 none. */
export function runningAt({ samples }: CallPaths, thread: number, t: number, t0: number, t1: number): number {
  return nearest(samples, thread, t, t0, t1, (moment) => moment === Moment.OnCpu);
}

/** A sample of a wait is taken at most so long before the wait begins: in the call that leads to it. */
const BEFORE_WAIT = 1e6;

/** The sample that shows where `thread` waited between `t0` and `t1`; -1 none. */
export function waitAt({ samples }: CallPaths, thread: number, t0: number, t1: number): number {
  // One that was read while it lasted says at what file it waits, too.
  const read = nearest(samples, thread, t0, t0, t1, (moment) => moment === Moment.BlockedRead);
  return read >= 0 ? read : nearest(samples, thread, t0, t0 - BEFORE_WAIT, t1, isWaitMoment);
}

/** The sample that shows what `waker` did when it woke another thread at `t`; -1 none. */
export function wakerAt({ samples }: CallPaths, waker: number, t: number): number {
  return nearest(samples, waker, t, t - BEFORE_WAIT / 10, t + BEFORE_WAIT / 10, (moment) => moment === Moment.Waker);
}

function nearest(samples: Samples, thread: number, t: number, t0: number, t1: number, wanted: (moment: number) => boolean): number {
  const first = samples.first[thread] ?? 0;
  const last = samples.first[thread + 1] ?? first;
  const middle = first + partition(last - first, (i) => samples.time[first + i]! < t);
  let best = -1;
  const see = (i: number): boolean => {
    const time = samples.time[i]!;
    if (time < t0 || time > t1) return true;
    if (!wanted(momentOf(samples, i))) return false;
    if (best < 0 || Math.abs(time - t) < Math.abs(samples.time[best]! - t)) best = i;
    return true;
  };
  for (let i = middle; i < last && !see(i); i++);
  for (let i = middle - 1; i >= first && !see(i); i--);
  return best;
}
