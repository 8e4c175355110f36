// Samples in rows: a tick for each where there is room, and running threads, also in the rows of CPUs, in the colours of their functions.
import { Moment, momentOf, type CallPaths } from "../data/call-paths";
import { State } from "../data/index";
import { partition } from "../data/query";
import type { Span } from "./lines";
import { assignColours, hash, Inks, N_NAME_COLOURS, paletteColour, stateColour, type Rgb } from "./palette";

/** Samples closer than this have no ticks, CSS pixels. */
const APART = 5;
/** Samples that one row of a frame looks at: of more, every second or tenth says the same. */
const MOST_LOOKED_AT = 20_000;
/** Functions that get colours of their own before others take what their names say. */
const FIRST = 200;

/** What the rows of threads show of samples. */
export interface CodeRows {
  paths: CallPaths;
  /** Colours of functions; undefined: rows are coloured by state alone. */
  colours: CodeColours | undefined;
}

/** A colour for each function, as slices have by their names: those that ran longest never look alike. */
export class CodeColours {
  readonly inks: Inks;
  /** Names of the functions that ran longest, longest first, with their colours. */
  readonly top: { name: string; rgb: Rgb }[];

  constructor(
    { functions, samples, frame, frames }: CallPaths,
    readonly dark: boolean,
  ) {
    const ran = new Float64Array(functions.length);
    for (let i = 0; i < samples.path.length; i++) {
      if (samples.path[i]! >= 0 && momentOf(samples, i) === Moment.OnCpu) ran[frames.fn[frame[samples.path[i]!]!]!]! += samples.weight[i]!;
    }
    const first = [...ran.keys()].filter((fn) => ran[fn]! > 0).sort((a, b) => ran[b]! - ran[a]!).slice(0, FIRST);
    const given = assignColours(first.map((fn) => functions[fn]!.name));
    this.inks = new Inks((fn) => {
      const name = functions[fn]?.name ?? "";
      return paletteColour(given.get(name) ?? hash(name) % N_NAME_COLOURS, dark);
    }, functions.length);
    // Functions of one name have one colour.
    const names = [...new Set(first.map((fn) => functions[fn]!.name))];
    this.top = names.map((name) => ({ name, rgb: paletteColour(given.get(name)!, dark) }));
  }
}

/** Rows of the samples of `thread` between two times. */
function between({ samples }: CallPaths, thread: number, t0: number, t1: number): [number, number] {
  const first = samples.first[thread] ?? 0;
  const n = (samples.first[thread + 1] ?? first) - first;
  return [first + partition(n, (i) => samples.time[first + i]! < t0), first + partition(n, (i) => samples.time[first + i]! <= t1)];
}

/** Where the ticks of a thread's samples are, in CSS pixels; none where they would be too close. */
export function ticksOf(paths: CallPaths, thread: number, t0: number, t1: number, width: number): number[] {
  const [from, to] = between(paths, thread, t0, t1);
  if ((to - from) * APART > width) return [];
  return Array.from({ length: to - from }, (_, i) => ((paths.samples.time[from + i]! - t0) / (t1 - t0)) * width);
}

/** A run of pixels of one function. */
export interface FunctionRun {
  x0: number;
  x1: number;
  fn: number;
}

/**
 * Gives the running pixels of a row of states the colours of the functions that ran: of each pixel the one sampled most, where
 * there is no sample that of the nearest one in the same run of pixels. Runs without any sample stay as they are. `begun` and `until`:
 * when the states at the left and at the right edge begin and end; their samples may lie outside of the view.
 */
export function colourByFunction(body: Uint32Array, span: Span, paths: CallPaths, colours: CodeColours, thread: number, begun = span.t0, until = span.t1): FunctionRun[] {
  const { width } = span;
  const fns = sampledFunctions(span, paths, thread);
  const rgb = stateColour(State.Running, colours.dark);
  const running = ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16);
  const isRunning = (x: number): boolean => body[x] !== 0 && (body[x]! & 0xffffff) === running;
  edges(fns, span, paths, thread, begun, until, isRunning);
  const runs: FunctionRun[] = [];
  for (let x0 = 0; x0 < width; ) {
    if (!isRunning(x0)) {
      x0++;
      continue;
    }
    let x1 = x0;
    while (x1 < width && isRunning(x1)) x1++;
    colourRun(body, fns, x0, x1, colours, runs);
    x0 = x1;
  }
  return runs;
}

/**
 * The same for the row of a CPU: each pixel takes the function of the thread that had the CPU longest in it; `threads` has that
 * thread's row + 1 by pixel, 0 none. `begun` and `until` are of the items at the edges.
 */
export function colourCpuByFunction(body: Uint32Array, threads: Uint32Array, span: Span, paths: CallPaths, colours: CodeColours, begun = span.t0, until = span.t1): FunctionRun[] {
  const { width } = span;
  const { first } = paths.samples;
  const known = new Map<number, Int32Array>();
  const runs: FunctionRun[] = [];
  for (let x0 = 0, x1 = 0; x0 < width; x0 = x1) {
    const thread = threads[x0]! - 1;
    for (x1 = x0 + 1; x1 < width && threads[x1] === thread + 1; ) x1++;
    // Most threads of other programs have no samples.
    if (thread < 0 || first[thread] === undefined || first[thread] === first[thread + 1]) continue;
    let fns = known.get(thread);
    if (!fns) {
      fns = sampledFunctions(span, paths, thread);
      known.set(thread, fns);
    }
    if (x0 === 0 || x1 === width) edges(fns, span, paths, thread, x0 === 0 ? begun : span.t1, x1 === width ? until : span.t0, (x) => x >= x0 && x < x1);
    colourRun(body, fns, x0, x1, colours, runs);
  }
  return runs;
}

/** Colours the pixels `[x0, x1)`, one run of a thread, and adds what they show to `runs`. */
function colourRun(body: Uint32Array, fns: Int32Array, x0: number, x1: number, colours: CodeColours, runs: FunctionRun[]): void {
  spread(fns, x0, x1);
  for (let x = x0; x < x1; x++) {
    const fn = fns[x]!;
    if (fn < 0) continue;
    body[x] = ((colours.inks.of(fn) & 0xffffff) | (body[x]! & 0xff000000)) >>> 0;
    const last = runs.at(-1);
    if (last?.x1 === x && last.fn === fn) last.x1 = x + 1;
    else runs.push({ x0: x, x1: x + 1, fn });
  }
}

/** Runs at the edges of the view take samples from outside of it, as far as these are the nearest. */
function edges(fns: Int32Array, { t0, t1, width }: Span, paths: CallPaths, thread: number, begun: number, until: number, isRunning: (x: number) => boolean): void {
  const [from, to] = between(paths, thread, t0, t1);
  const { time } = paths.samples;
  const outside = (i: number, inside: boolean): boolean => inside && i >= paths.samples.first[thread]! && i < paths.samples.first[thread + 1]! && momentOf(paths.samples, i) === Moment.OnCpu && paths.samples.path[i]! >= 0;
  const left = outside(from - 1, time[from - 1]! >= begun) ? from - 1 : -1;
  const right = outside(to, time[to]! <= until) ? to : -1;
  const x = (t: number): number => Math.max(0, Math.min(width, Math.round(((t - t0) / (t1 - t0)) * width)));
  const fnOf = (i: number): number => paths.frames.fn[paths.frame[paths.samples.path[i]!]!]!;
  // Half of the way to the next sample, which may be outside too.
  if (left >= 0) {
    const end = from < to || right >= 0 ? x((time[left]! + time[from]!) / 2) : width;
    for (let p = 0; p < end && isRunning(p); p++) if (fns[p]! < 0) fns[p] = fnOf(left);
  }
  if (right >= 0) {
    const start = from < to || left >= 0 ? x((time[to - 1]! + time[right]!) / 2) : 0;
    for (let p = width - 1; p >= start && isRunning(p); p--) if (fns[p]! < 0) fns[p] = fnOf(right);
  }
}

/** For each pixel the function that most of its samples were in, -1 without one. */
function sampledFunctions({ t0, t1, width }: Span, paths: CallPaths, thread: number): Int32Array {
  const { samples, frame, frames } = paths;
  const fns = new Int32Array(width).fill(-1);
  const [from, to] = between(paths, thread, t0, t1);
  const step = Math.max(1, Math.ceil((to - from) / MOST_LOOKED_AT));
  const scale = width / (t1 - t0);
  const here = new Map<number, number>();
  let pixel = -1;
  let most = 0;
  for (let i = from; i < to; i += step) {
    const path = samples.path[i]!;
    if (path < 0 || momentOf(samples, i) !== Moment.OnCpu) continue;
    const x = Math.min(width - 1, Math.floor((samples.time[i]! - t0) * scale));
    if (x !== pixel) {
      here.clear();
      [pixel, most] = [x, 0];
    }
    const fn = frames.fn[frame[path]!]!;
    const n = (here.get(fn) ?? 0) + 1;
    here.set(fn, n);
    if (n <= most) continue;
    most = n;
    fns[x] = fn;
  }
  return fns;
}

/** Fills the pixels `[x0, x1)` without a function from the nearest one that has one. */
function spread(fns: Int32Array, x0: number, x1: number): void {
  let before = -1;
  for (let x = x0; x < x1; x++) {
    if (fns[x]! < 0) continue;
    // The pixels since the one before are divided in the middle; those before the first are all its own.
    const middle = before < 0 ? x0 : Math.ceil((before + x) / 2);
    if (before >= 0) fns.fill(fns[before]!, before, middle);
    fns.fill(fns[x]!, middle, x);
    before = x;
  }
  if (before >= 0) fns.fill(fns[before]!, before, x1);
}
