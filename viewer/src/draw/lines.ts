// A line as one row of pixels. All rows of a frame are painted into one image, which the screen then stretches to the
// rows' heights: 64 rows of 123 000 items take 0.6 ms, where a rectangle for each item takes 50.
import { Kind } from "../data/index";
import { isBlocked, MERGED, pick } from "../data/lod";
import { itemsBetween, unitsBetween } from "../data/query";
import type { Unit } from "../data/columns";
import type { Line } from "../data/recording";

/** What to paint: `width` device pixels from `t0` to `t1` of an axis of `length` ns. */
export interface Span {
  t0: number;
  t1: number;
  width: number;
  length: number;
}

/** Where a line's pixels go, and what else was learned while painting. Pixels are 0xAABBGGRR. */
export interface Target {
  /** The row's colours. */
  body: Uint32Array;
  /** Its upper edge: what must not be hidden, and a shade over what is merged. */
  edge: Uint32Array;
  at: number;
  /** Called for each item, or run of equal pixels, at least `labelWidth` wide. */
  label: (x0: number, x1: number, value: number) => void;
  labelWidth: number;
}

export interface Style {
  /** 0xRRGGBB of a value. */
  colour: (value: number) => number;
  /** Whether a value is looked for; others are then dimmed. */
  matches: ((value: number) => boolean) | undefined;
  /** Whether the value must not be hidden by its neighbours. */
  rare: (value: number) => boolean;
  /** Items of this line that must not be hidden by their neighbours: the longest of their names. */
  notable: { start: number; end: number; value: number }[];
  /** 0xRRGGBB behind the rows: the shade over merged pixels. */
  background: number;
}

/** Faintest that anything is drawn: below, it cannot be told from nothing. */
const FAINTEST = 72;
const DIMMED = 0.22;

function abgr(rgb: number, alpha: number): number {
  return ((alpha << 24) | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
}

function ink(style: Style, value: number, alpha: number): number {
  const seen = style.matches === undefined || style.matches(value);
  return abgr(style.colour(value), Math.round(seen ? alpha : alpha * DIMMED));
}

/** Paints `line`; `units` gives a unit or undefined when it is not decoded (yet). False: something is missing. */
export function paintLine(
  line: Line,
  span: Span,
  style: Style,
  units: (u: number) => Unit | undefined,
  target: Target,
): boolean {
  const nsPerPixel = (span.t1 - span.t0) / span.width;
  const finest = line.levels.at(-1);
  const expected = line.lod?.[0] ?? 0;
  const fine = expected > 0 ? span.length / expected : Infinity;
  if (expected > 0 && nsPerPixel >= fine && finest) {
    paintLevel(line, span, style, target);
    return finest.n === expected || nsPerPixel >= span.length / finest.n;
  }
  const [first, last] = unitsBetween(line, span.t0, span.t1);
  const decoded: Unit[] = [];
  let complete = true;
  for (let u = first; u < last; u++) {
    const unit = units(u);
    if (unit) decoded.push(unit);
    else complete = false;
  }
  if (!complete && finest) {
    paintLevel(line, span, style, target);
    return false;
  }
  const painter = new RawPainter(line, span, style, target);
  for (const unit of decoded) painter.unit(unit);
  painter.flush();
  for (const item of style.notable) {
    const x0 = ((item.start - span.t0) * span.width) / (span.t1 - span.t0);
    const x = Math.floor(x0);
    // A wide one is seen anyway.
    if (x < 0 || x >= span.width || (item.end - item.start) / nsPerPixel >= 2) continue;
    if ((target.edge[target.at + x]! >>> 24) > 0) target.edge[target.at + x] = abgr(style.colour(item.value), 255);
  }
  return complete;
}

/** Paints items; those narrower than a pixel share it, and the longest of them colours it. */
class RawPainter {
  private readonly scale: number;
  /** The open pixel: what was longest in it, how much of it is filled, by how many items. */
  private pixel = -1;
  private best = 0;
  private value = 0;
  private filled = 0;
  private count = 0;
  private note = 0;
  private readonly states: boolean;

  constructor(
    line: Line,
    private readonly span: Span,
    private readonly style: Style,
    private readonly target: Target,
  ) {
    this.scale = span.width / (span.t1 - span.t0);
    this.states = line.kind === Kind.State;
  }

  unit(unit: Unit): void {
    const { t0, t1, width } = this.span;
    const [i0, i1] = itemsBetween(unit, t0, t1);
    const { start, end, value } = unit;
    for (let i = i0; i < i1; i++) {
      const x0 = (start[i]! - t0) * this.scale;
      const x1 = (end[i]! - t0) * this.scale;
      const p0 = Math.max(0, Math.floor(x0));
      const p1 = Math.min(width - 1, Math.floor(x1));
      if (p1 <= p0 || x1 - x0 < 1) {
        this.small(p0, Math.min(x1, p0 + 1) - Math.max(x0, p0), value[i]!);
        if (p1 > p0 && x1 > p1) this.small(p1, x1 - p1, value[i]!);
      } else {
        this.wide(x0, x1, p0, p1, value[i]!);
      }
    }
  }

  /** An item, or an end of one, within pixel `p`. */
  private small(p: number, filled: number, value: number): void {
    if (p >= this.span.width) return;
    if (p !== this.pixel) {
      this.flush();
      this.pixel = p;
    }
    this.count++;
    if (this.style.rare(value)) this.note = value + 1;
    const blocked = this.states && isBlocked(value);
    const weight = blocked ? filled * 1e-6 : filled;
    if (this.count === 1 || weight > this.best) {
      this.best = weight;
      this.value = value;
    }
    if (!blocked) this.filled += Math.max(0, filled);
  }

  private wide(x0: number, x1: number, p0: number, p1: number, value: number): void {
    let from = p0;
    const head = x0 > p0 ? p0 + 1 - x0 : 1;
    if (head < 1) {
      this.small(p0, head, value);
      from = p0 + 1;
    }
    const whole = Math.min(p1, Math.floor(x1));
    const to = x1 >= this.span.width ? this.span.width : whole;
    if (to > from) {
      if (this.pixel >= from) this.pixel = -1;
      this.flush();
      const { body, at, label, labelWidth } = this.target;
      body.fill(ink(this.style, value, 255), at + from, at + to);
      // A darker first pixel parts neighbours of one colour.
      if (!this.states && x1 - x0 >= 4 && x0 >= 0) {
        body[at + from] = ink(this.style, value, 150);
      }
      if (to - from >= labelWidth) label(from, to, value);
    }
    if (x1 < this.span.width && x1 > to) this.small(to, x1 - to, value);
  }

  flush(): void {
    const p = this.pixel;
    if (p < 0 || p >= this.span.width || this.count === 0) {
      this.count = 0;
      return;
    }
    const { body, edge, at } = this.target;
    const blockedOnly = this.states && isBlocked(this.value);
    const cover = blockedOnly ? 255 : Math.round(255 * Math.min(1, this.filled));
    body[at + p] = ink(this.style, this.value, Math.max(FAINTEST, cover));
    if (this.note !== 0 && this.note !== this.value + 1) edge[at + p] = abgr(this.style.colour(this.note - 1), 255);
    else if (this.count > 2) edge[at + p] = abgr(this.style.background, 150);
    this.pixel = -1;
    this.count = 0;
    this.best = 0;
    this.filled = 0;
    this.note = 0;
  }
}

function paintLevel(line: Line, span: Span, style: Style, target: Target): void {
  const level = pick(line.levels, span.length, (span.t1 - span.t0) / span.width);
  if (!level) return;
  const { body, edge, at, labelWidth } = target;
  const perPixel = (((span.t1 - span.t0) / span.width) * level.n) / span.length;
  const first = (span.t0 * level.n) / span.length;
  const states = line.kind === Kind.State;
  const shade = abgr(style.background, 150);
  let runFrom = 0;
  let runValue = -1;
  for (let p = 0; p <= span.width; p++) {
    let shown = -1;
    const b0 = Math.max(0, Math.floor(first + p * perPixel));
    const b1 = Math.min(level.n, Math.max(b0 + 1, Math.floor(first + (p + 1) * perPixel)));
    if (p < span.width && first + p * perPixel >= 0 && b0 < b1) {
      let best = -1;
      let pickAt = -1;
      let filled = 0;
      let flags = 0;
      let note = 0;
      for (let b = b0; b < b1; b++) {
        const cover = level.cover[b]!;
        if (cover === 0) continue;
        const weight = states && isBlocked(level.value[b]!) ? 0 : cover;
        filled += weight;
        flags |= level.flags[b]!;
        if (level.note[b]! !== 0) note = level.note[b]!;
        if (pickAt >= 0 && level.value[b] !== level.value[pickAt]) flags |= MERGED;
        if (weight > best) {
          best = weight;
          pickAt = b;
        }
      }
      if (pickAt >= 0) {
        const value = level.value[pickAt]!;
        const cover = filled === 0 ? level.cover[pickAt]! : filled / (b1 - b0);
        let alpha = Math.max(FAINTEST, cover);
        if (style.matches && note !== 0 && style.matches(note - 1)) alpha = 255;
        body[at + p] = ink(style, value, alpha);
        if (note !== 0 && note !== value + 1) edge[at + p] = abgr(style.colour(note - 1), 255);
        else if ((flags & MERGED) !== 0) edge[at + p] = shade;
        if ((flags & MERGED) === 0) shown = value;
      }
    }
    if (shown !== runValue) {
      if (runValue >= 0 && p - runFrom >= labelWidth) target.label(runFrom, p, runValue);
      runFrom = p;
      runValue = shown;
    }
  }
}
