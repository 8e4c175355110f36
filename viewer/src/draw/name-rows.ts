// CPUs in the colours of what the program annotated: each pixel has the innermost annotation that the CPU was in longest.
//
// Few items are joined one by one: for each stretch of a thread on a CPU, the innermost slice at each instant. With more items in view than
// can be joined in a frame, a thread's levels say what filled most of a pixel, and of nested ones the innermost that was not mostly filled by others.
import { Kind, SliceKind } from "../data/index";
import { groupBy } from "../data/group";
import { itemsBetween, overlap, unitsBetween } from "../data/query";
import type { Unit } from "../data/columns";
import type { Line, Recording } from "../data/recording";
import { encodeNamed, kindOf } from "../data/value";
import { abgr, DIMMED, paintLine, type Span, type Style } from "./lines";
import { Inks, isWait, type Rgb } from "./palette";

/** Items that are joined one by one in a frame. */
const MOST_JOINED = 50_000;
/** Items of the units that these are in: half of what is kept decoded. */
const MOST_DECODED = 2_000_000;

/** A number as a colour, and the number that a painted pixel has: what was painted with {@link NUMBERS} is read back exactly up to 2^24. */
export const NUMBERS = new Inks((value) => value, 1 << 16);
export function numberOf(pixel: number): number {
  return ((pixel & 255) << 16) | (pixel & 0xff00) | ((pixel >> 16) & 255);
}

/** Times without overlaps, in order: what a thread was in, as the value of a slice. */
export interface Flat {
  start: number[];
  end: number[];
  value: number[];
}

/** What encloses is cut where something inside it is. A held lock is no part of the work: what is around it shows. */
export function innermost(depths: readonly (readonly { unit: Unit; i0: number; i1: number }[])[]): Flat {
  let inner: Flat = { start: [], end: [], value: [] };
  for (const parts of [...depths].reverse()) {
    const flat: Flat = { start: [], end: [], value: [] };
    const add = (start: number, end: number, value: number): void => {
      if (end <= start) return;
      flat.start.push(start);
      flat.end.push(end);
      flat.value.push(value);
    };
    let k = 0;
    const inside = (until: number, outer: (from: number, to: number) => void, from: number): number => {
      let at = from;
      for (; k < inner.start.length && inner.start[k]! < until; k++) {
        outer(at, inner.start[k]!);
        add(inner.start[k]!, inner.end[k]!, inner.value[k]!);
        at = Math.max(at, inner.end[k]!);
      }
      return at;
    };
    for (const { unit, i0, i1 } of parts) {
      for (let i = i0; i < i1; i++) {
        const value = unit.value[i]!;
        const fill = kindOf(value) === SliceKind.LockHold ? () => undefined : (from: number, to: number) => add(from, to, value);
        inside(unit.start[i]!, () => undefined, unit.start[i]!);
        const end = unit.end[i]!;
        fill(inside(end, fill, unit.start[i]!), end);
      }
    }
    inside(Infinity, () => undefined, 0);
    inner = flat;
  }
  return inner;
}

/** By pixel of a CPU's row: a slice's value + 1 when most of the time was in it, -1 - thread where that thread had no annotation, 0 idle. */
export type Keys = Int32Array;

/** The parts of the recording that rows of CPUs are made from; one for all frames. */
export class NameRows {
  private readonly slices: Map<number, Line[]>;
  private readonly cpus: Line[];
  /** A level's pixels hold numbers below 2^24, names may have larger ones. */
  private readonly numbers: Inks;
  private readonly values: number[] = [0];
  private last: NameFrame | undefined;

  constructor(private readonly recording: Recording) {
    const { lines, index } = recording;
    this.slices = groupBy(lines.filter((line) => line.kind === Kind.Slice), (line) => line.owner);
    for (const of of this.slices.values()) of.sort((a, b) => a.depth - b.depth);
    this.cpus = lines.filter((line) => line.kind === Kind.Cpu);
    const number = new Map<number, number>();
    for (const { name, kind } of index.names) {
      const value = encodeNamed(name, kind);
      if (!number.has(value)) number.set(value, this.values.push(value) - 1);
    }
    this.numbers = new Inks((value) => number.get(value) ?? 0, encodeNamed(index.strings.length, 0));
  }

  /** What one frame needs: rows of CPUs share the threads that ran on them. */
  frame(span: Span): NameFrame {
    const { last } = this;
    // A pointer that moves over the chart asks for many frames of one view.
    if (last?.complete && last.span.t0 === span.t0 && last.span.t1 === span.t1 && last.span.width === span.width) return last;
    this.last = new NameFrame(this.recording, this.slices, span, this.numbers, this.values, !this.canJoin(span));
    return this.last;
  }

  /** Whether few enough items are in view, by the times of their units, and few enough have to be decoded for that. */
  private canJoin({ t0, t1 }: Span): boolean {
    let inView = 0;
    let decoded = 0;
    for (const of of [this.cpus, ...this.slices.values()]) {
      for (const line of of) {
        const [first, last] = unitsBetween(line, t0, t1);
        decoded += line.base[last]! - line.base[first]!;
        for (let u = first; u < last; u++) {
          const [from, to] = [line.from[u]!, line.to[u]!];
          inView += (line.base[u + 1]! - line.base[u]!) * (to > from ? overlap(from, to, t0, t1) / (to - from) : 1);
        }
      }
    }
    return inView <= MOST_JOINED && decoded <= MOST_DECODED;
  }
}

const NOTHING: Flat = { start: [], end: [], value: [] };

export class NameFrame {
  /** Whether everything that was asked for was decoded. */
  complete = true;
  private readonly known = new Map<Line, Keys>();
  private readonly flats = new Map<number, Flat | undefined>();
  private readonly painted = new Map<number, Int32Array>();

  constructor(
    private readonly recording: Recording,
    private readonly slices: Map<number, Line[]>,
    readonly span: Span,
    private readonly numbers: Inks,
    private readonly values: readonly number[],
    private readonly coarse: boolean,
  ) {}

  /** The keys of a CPU's row. */
  keys(line: Line): Keys {
    let keys = this.known.get(line);
    if (!keys) {
      keys = (this.coarse ? undefined : this.joined(line)) ?? this.fromPixels(line);
      this.known.set(line, keys);
    }
    return keys;
  }

  /** The decoded items of `line` in view; undefined: some are not there yet. */
  private items(line: Line): { unit: Unit; i0: number; i1: number }[] | undefined {
    const { t0, t1 } = this.span;
    const [first, last] = unitsBetween(line, t0, t1);
    const found = [];
    let complete = true;
    for (let u = first; u < last; u++) {
      const unit = this.recording.want(line, u);
      complete &&= unit !== undefined;
      if (!unit) continue;
      const [i0, i1] = itemsBetween(unit, t0, t1);
      found.push({ unit, i0, i1 });
    }
    this.complete &&= complete;
    return complete ? found : undefined;
  }

  private flat(thread: number): Flat | undefined {
    if (this.flats.has(thread)) return this.flats.get(thread);
    const depths = (this.slices.get(thread) ?? []).map((line) => this.items(line));
    const flat = depths.every((parts) => parts !== undefined) ? innermost(depths) : undefined;
    this.flats.set(thread, flat);
    return flat;
  }

  /** From the items themselves; undefined: some are not there yet. */
  private joined(line: Line): Keys | undefined {
    const parts = this.items(line);
    let complete = parts !== undefined;
    const pixels = new Longest(this.span);
    for (const { unit, i0, i1 } of parts ?? []) {
      for (let i = i0; i < i1; i++) {
        const thread = unit.value[i]! - 1;
        const flat = thread < 0 ? NOTHING : this.flat(thread);
        if (!flat) complete = false;
        else ran(pixels, flat, thread, unit.start[i]!, unit.end[i]!);
      }
    }
    return complete ? pixels.done() : undefined;
  }

  /** From pixels of the CPU's row and of its threads' slices. */
  private fromPixels(line: Line): Keys {
    const { width } = this.span;
    const threads = this.paint(line, NUMBERS).body;
    const keys = new Int32Array(width);
    for (let x = 0; x < width; x++) {
      if (threads[x] === 0) continue;
      const thread = numberOf(threads[x]!) - 1;
      let names = this.painted.get(thread);
      if (!names) {
        names = this.names(thread);
        this.painted.set(thread, names);
      }
      keys[x] = names[x] !== 0 ? names[x]! : -1 - thread;
    }
    return keys;
  }

  /** By pixel, the value + 1 of a thread's slice: of nested ones that which is filled most by itself. A wait says nothing of what ran. */
  private names(thread: number): Int32Array {
    const { width } = this.span;
    const best = new Float64Array(width);
    const names = new Int32Array(width);
    let above = new Float64Array(width);
    for (const line of [...(this.slices.get(thread) ?? [])].reverse()) {
      const { body } = this.paint(line, this.numbers);
      const inside = new Float64Array(width);
      for (let x = 0; x < width; x++) {
        const cover = body[x]! >>> 24;
        inside[x] = Math.max(cover, above[x]!);
        const number = numberOf(body[x]!);
        const value = this.values[number]!;
        const own = cover - above[x]!;
        const kind = kindOf(value);
        if (cover === 0 || number === 0 || own <= best[x]! || kind === SliceKind.LockHold || isWait(kind)) continue;
        best[x] = own;
        names[x] = value + 1;
      }
      above = inside;
    }
    return names;
  }

  private paint(line: Line, inks: Inks): { body: Uint32Array } {
    const { width } = this.span;
    const [body, edge, mark] = [0, 1, 2].map(() => new Uint32Array(width)) as [Uint32Array, Uint32Array, Uint32Array];
    const style: Style = { inks, matches: undefined, rare: undefined, notable: [], background: 0, text: 0 };
    const complete = paintLine(line, this.span, style, this.recording, { body, edge, mark, at: 0, labelWidth: Infinity, label: () => undefined });
    this.complete &&= complete;
    return { body };
  }
}

/** Adds to `pixels` what `thread` was in while it had a CPU from `t0` to `t1`. */
function ran(pixels: Longest, { start, end, value }: Flat, thread: number, t0: number, t1: number): void {
  // The first that ends later: bisection, since a thread comes to its CPU again and again.
  let low = 0;
  let high = end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[middle]! <= t0) low = middle + 1;
    else high = middle;
  }
  let at = t0;
  for (let k = low; k < start.length && start[k]! < t1; k++) {
    const from = Math.max(at, start[k]!);
    if (from > at) pixels.add(at, from, -1 - thread);
    const to = Math.min(t1, end[k]!);
    pixels.add(from, to, value[k]! + 1);
    at = to;
  }
  if (at < t1) pixels.add(at, t1, -1 - thread);
}

/** The key that fills most of each pixel, of stretches in order of time. */
class Longest {
  private readonly keys: Int32Array;
  private readonly scale: number;
  private pixel = -1;
  private readonly here = new Map<number, number>();
  private most = 0;

  constructor(private readonly span: Span) {
    this.keys = new Int32Array(span.width);
    this.scale = span.width / (span.t1 - span.t0);
  }

  add(from: number, to: number, key: number): void {
    const { width, t0 } = this.span;
    const x0 = Math.max(0, (from - t0) * this.scale);
    const x1 = Math.min(width, (to - t0) * this.scale);
    if (x1 <= x0) return;
    const first = Math.floor(x0);
    const last = Math.ceil(x1) - 1;
    this.part(first, Math.min(x1, first + 1) - x0, key);
    if (last <= first) return;
    this.keys.fill(key, first + 1, last);
    this.part(last, x1 - last, key);
  }

  private part(pixel: number, filled: number, key: number): void {
    if (pixel !== this.pixel) {
      this.here.clear();
      [this.pixel, this.most] = [pixel, 0];
    }
    const sum = (this.here.get(key) ?? 0) + filled;
    this.here.set(key, sum);
    if (sum <= this.most) return;
    this.most = sum;
    this.keys[pixel] = key;
  }

  done(): Keys {
    return this.keys;
  }
}

/** A run of pixels of one annotation. */
export interface NameRun {
  x0: number;
  x1: number;
  value: number;
}

/**
 * Gives a CPU's pixels the colours of their keys. `rgb` has that of a slice's value, `plain` that of a thread without an annotation; what is
 * not looked for (`matches`, by value) is dimmed.
 */
export function colourByName(body: Uint32Array, keys: Keys, rgb: (value: number) => Rgb, plain: (thread: number) => Rgb, dimmed: (value: number) => boolean): NameRun[] {
  const runs: NameRun[] = [];
  for (let x = 0; x < keys.length; x++) {
    const key = keys[x]!;
    if (key === 0 || body[x] === 0) continue;
    const colour = key > 0 ? rgb(key - 1) : plain(-1 - key);
    let alpha = body[x]! >>> 24;
    if (key > 0 && dimmed(key - 1)) alpha = (alpha * DIMMED) | 0;
    body[x] = abgr(colour, alpha);
    if (key < 0) continue;
    const last = runs.at(-1);
    if (last?.x1 === x && last.value === key - 1) last.x1 = x + 1;
    else runs.push({ x0: x, x1: x + 1, value: key - 1 });
  }
  return runs;
}
