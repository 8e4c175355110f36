// A line as one row of pixels. All rows of a frame are painted into one image, which the screen then stretches to the
// rows' heights: 64 rows of 123 000 items take 0.6 ms, where a rectangle for each item takes 50.
//
// What a pixel says, whether it was painted from items or from a level:
//   body  colour of what filled most of it, paler the less of it is filled
//   edge  its upper edge: shaded when it holds a whole item beside another (merged); the colour of something that must
//         not be hidden (a rare name, a name's longest slice, a preemption) when that is not the body's colour
//   mark  above the edge: more than one such thing is hidden here
import { KIND_BITS } from "../data/value";
import { Kind } from "../data/index";
import { bucketsFor, isFaint, MERGED, SEVERAL, stretchOf, tilesOf, type Level, type Stretch, type Tile } from "../data/lod";
import { itemsBetween, unitsBetween } from "../data/query";
import type { Unit } from "../data/columns";
import type { Line } from "../data/recording";
import type { Inks } from "./palette";

/** What to paint: `width` device pixels from `t0` to `t1` of an axis of `length` ns. */
export interface Span {
  t0: number;
  t1: number;
  width: number;
  length: number;
}

/** Where a line's pixels go, and what else was learned while painting. Pixels are 0xAABBGGRR. */
export interface Target {
  body: Uint32Array;
  edge: Uint32Array;
  mark: Uint32Array;
  at: number;
  /** Called for each item, or run of equal pixels, at least `labelWidth` wide. */
  label: (x0: number, x1: number, value: number) => void;
  labelWidth: number;
}

export interface Style {
  inks: Inks;
  /** By name: 1 when it is looked for, all others are dimmed; undefined: no search. */
  matches: Uint8Array | undefined;
  /** Whether the value must not be hidden by its neighbours: by name, or for states by state. */
  rare: Uint8Array | undefined;
  /** Items of this line that must not be hidden by their neighbours: the longest of their names. */
  notable: { start: number; end: number; value: number }[];
  /** 0xRRGGBB behind the rows: the shade over merged pixels. */
  background: number;
  /** 0xRRGGBB of marks. */
  text: number;
}

/** Faintest that anything is drawn: below, it cannot be told from nothing. */
const FAINTEST = 72;
/** What is not looked for. */
export const DIMMED = 0.22;

/** A pixel of a canvas on a little-endian machine, which all machines with a browser are. */
export function abgr(rgb: number, alpha: number): number {
  return ((alpha << 24) | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
}

/** Names are looked for and rare by name; see data/value.ts. */
function keyShift(kind: Kind): number {
  return kind === Kind.State || kind === Kind.Cpu || kind === Kind.Lock || kind === Kind.Account ? 0 : KIND_BITS;
}

/** What gives a line's parts: undefined when they are not decoded (yet); `want...` asks for them. */
export interface Parts {
  want(line: Line, u: number): Unit | undefined;
  wantTile(line: Line, t: number): Tile | undefined;
  peekTile(line: Line, t: number): Tile | undefined;
  /** Will soon be wanted. */
  expectTile(line: Line, t: number): void;
}

/** Paints `line`. False: something is missing. */
export function paintLine(line: Line, span: Span, style: Style, parts: Parts, target: Target): boolean {
  // `fine` is the width of a bucket of the line's finest level, ns. A wider pixel is painted from a level, which takes the
  // same time however many items the line has; a narrower one from the items. `finest` is 0 for lines that have no
  // levels because they have few items.
  const nsPerPixel = (span.t1 - span.t0) / span.width;
  const finest = line.lod?.[0] ?? 0;
  const fine = finest > 0 ? span.length / finest : Infinity;
  if (finest > 0 && nsPerPixel >= fine) return paintLevels(line, span, style, parts, target);
  const [first, last] = unitsBetween(line, span.t0, span.t1);
  const decoded: Unit[] = [];
  let complete = true;
  for (let u = first; u < last; u++) {
    const unit = parts.want(line, u);
    if (unit) decoded.push(unit);
    else complete = false;
  }
  // Not all items are decoded. A coarse picture of the whole line is better than holes that look like idle time.
  if (!complete && finest > 0) {
    paintLevels(line, span, style, parts, target);
    return false;
  }
  const painter = new ItemPainter(line.kind, span, style, target);
  for (const unit of decoded) painter.unit(unit);
  painter.flush();
  for (const item of style.notable) painter.notable(item);
  return complete;
}

/** Paints items; those narrower than a pixel share it, and the longest of them colours it. */
class ItemPainter {
  private readonly scale: number;
  private readonly states: boolean;
  private readonly shift: number;
  private readonly shade: number;
  private readonly markInk: number;
  /** The open pixel: what was longest in it, how much of it is filled, by how many items, is one of them whole. */
  private pixel = -1;
  private best = 0;
  private value = 0;
  private filled = 0;
  private count = 0;
  private whole = false;
  private note = 0;
  private several = false;

  constructor(
    kind: Kind,
    private readonly span: Span,
    private readonly style: Style,
    private readonly target: Target,
  ) {
    this.scale = span.width / (span.t1 - span.t0);
    this.states = kind === Kind.State;
    this.shift = keyShift(kind);
    this.shade = abgr(style.background, 150);
    this.markInk = abgr(style.text, 255);
  }

  unit(unit: Unit): void {
    const { scale, span } = this;
    const { t0, t1, width } = span;
    const [i0, i1] = itemsBetween(unit, t0, t1);
    const { start, end, value } = unit;
    for (let i = i0; i < i1; i++) {
      // Ends in pixels, with fractions: they say how much of its first and last pixel an item fills.
      const x0 = (start[i]! - t0) * scale;
      const x1 = (end[i]! - t0) * scale;
      const p0 = Math.floor(x0);
      // Inside one pixel: it is added to what that pixel holds already.
      if (x1 <= p0 + 1) {
        if (p0 >= 0 && p0 < width) this.part(p0, x1 - x0, value[i]!, true);
        continue;
      }
      this.wide(x0, x1, p0, value[i]!);
    }
  }

  /** What is not looked for is dimmed. */
  private ink(value: number, alpha: number): number {
    const { matches, inks } = this.style;
    const seen = matches === undefined || matches[value >>> this.shift] === 1;
    const a = seen ? alpha : (alpha * DIMMED) | 0;
    return ((inks.of(value) & 0xffffff) | (a << 24)) >>> 0;
  }

  /** `filled` of pixel `p` is an item's, all of it (`whole`) or an end of it. */
  private part(p: number, filled: number, value: number, whole: boolean): void {
    if (p !== this.pixel) {
      this.flush();
      this.pixel = p;
    }
    this.count++;
    if (whole) this.whole = true;
    const rare = this.style.rare;
    if (rare?.[value >>> this.shift] === 1) {
      if (this.note !== 0 && this.note !== value + 1) this.several = true;
      this.note = value + 1;
    }
    // A thread that slept for most of a pixel and ran for a moment is shown as running: sleep colours a pixel only where
    // nothing else is in it.
    const blocked = this.states && isFaint(value);
    const weight = blocked ? filled * 1e-6 : filled;
    if (this.count === 1 || weight > this.best) {
      this.best = weight;
      this.value = value;
    }
    if (!blocked) this.filled += filled;
  }

  private wide(x0: number, x1: number, p0: number, value: number): void {
    const { width } = this.span;
    const head = p0 + 1 - x0;
    if (p0 >= 0 && head < 1 && p0 < width) this.part(p0, head, value, false);
    const from = Math.max(0, Math.ceil(x0));
    const to = Math.min(width, Math.floor(x1));
    // The whole pixels between the two ends are the item's alone.
    if (to > from) {
      this.flush();
      const { body, at, label, labelWidth } = this.target;
      body.fill(this.ink(value, 255), at + from, at + to);
      // A darker first pixel parts neighbours of one colour.
      if (!this.states && x1 - x0 >= 4 && x0 >= 0) body[at + from] = this.ink(value, 150);
      if (to - from >= labelWidth) label(from, to, value);
    }
    const tail = x1 - Math.floor(x1);
    if (tail > 0 && Math.floor(x1) < width && Math.floor(x1) >= 0) this.part(Math.floor(x1), tail, value, false);
  }

  flush(): void {
    const p = this.pixel;
    if (p < 0 || this.count === 0) return;
    const { body, edge, mark, at } = this.target;
    const blockedOnly = this.states && isFaint(this.value);
    // How much of the pixel is filled becomes its opacity.
    const cover = blockedOnly ? 255 : (255 * Math.min(1, this.filled)) | 0;
    body[at + p] = this.ink(this.value, Math.max(FAINTEST, cover));
    // The edge is for what the body does not show; 0 in `note` is nothing, so values are stored plus one.
    if (this.note !== 0 && this.note !== this.value + 1) edge[at + p] = this.ink(this.note - 1, 255);
    else if (this.whole && this.count > 1) edge[at + p] = this.shade;
    if (this.several) mark[at + p] = this.markInk;
    this.pixel = -1;
    this.count = 0;
    this.best = 0;
    this.filled = 0;
    this.note = 0;
    this.whole = false;
    this.several = false;
  }

  /** The longest of a name, when it shares its pixel with others. A wide one is seen anyway. */
  notable({ start, end, value }: { start: number; end: number; value: number }): void {
    const { body, edge, mark, at } = this.target;
    const x = Math.floor((start - this.span.t0) * this.scale);
    if (x < 0 || x >= this.span.width || (end - start) * this.scale >= 2) return;
    // It is seen already when the body or the edge has its colour. An empty edge means that it shares its pixel with nothing.
    const own = this.ink(value, 255);
    const shown = edge[at + x]!;
    const rgb = 0xffffff;
    if ((body[at + x]! & rgb) === (own & rgb) || (shown & rgb) === (own & rgb) || shown >>> 24 === 0) return;
    if (shown >>> 24 === 255) mark[at + x] = this.markInk;
    else edge[at + x] = own;
  }
}

/** Paints from the level that fits, or from the finest that is there. False: it was not the one that fits. */
function paintLevels(line: Line, span: Span, style: Style, parts: Parts, target: Target): boolean {
  const { t0, t1, length } = span;
  let n = bucketsFor(line, length, (t1 - t0) / span.width);
  let stretch = stretchOf(line, n, length, t0, t1, (t) => parts.wantTile(line, t));
  const complete = stretch !== undefined;
  // Moving the view by half its width must find what comes into it.
  if (complete && stretch!.per < n) {
    const { base, first, last } = tilesOf(line, n, length, t0 - (t1 - t0) / 2, t1 + (t1 - t0) / 2);
    for (let t = first; t < last; t++) parts.expectTile(line, base + t);
  }
  while (!stretch && n > 1) {
    n /= 2;
    stretch = stretchOf(line, n, length, t0, t1, (t) => parts.peekTile(line, t));
  }
  if (stretch) paintLevel(line, stretch, span, style, target);
  return complete;
}

const NO_LEVEL: Level = { n: 0, value: new Uint32Array(0), cover: new Uint8Array(0), flags: new Uint8Array(0), note: new Uint32Array(0) };

/** Paints from a level: a pixel holds one or several buckets of it. The rules are those of {@link ItemPainter}. */
function paintLevel(line: Line, stretch: Stretch, span: Span, style: Style, target: Target): void {
  const { body, edge, mark, at, labelWidth } = target;
  const { inks, matches } = style;
  // Buckets per pixel, and the bucket (with a fraction) at the left end of the view.
  const { n, per, parts } = stretch;
  const perPixel = (((span.t1 - span.t0) / span.width) * n) / span.length;
  const first = (span.t0 * n) / span.length;
  // The part that holds the bucket last looked at, and its first bucket.
  let level = NO_LEVEL;
  let base = 0;
  const states = line.kind === Kind.State;
  const shift = keyShift(line.kind);
  const shade = abgr(style.background, 150);
  const markInk = abgr(style.text, 255);
  // The open run of pixels of one value, which gets one label; -1 between runs.
  let runFrom = 0;
  let runValue = -1;
  // One step beyond the last pixel: it closes the last run.
  for (let p = 0; p <= span.width; p++) {
    let shown = -1;
    const x = first + p * perPixel;
    const b0 = Math.max(0, Math.floor(x));
    const b1 = Math.min(n, Math.max(b0 + 1, Math.floor(x + perPixel)));
    if (p < span.width && x >= 0 && b0 < b1) {
      let best = -1;
      let value = -1;
      let bestCover = 0;
      let filled = 0;
      let flags = 0;
      let noteA = 0;
      let noteB = 0;
      for (let b = b0; b < b1; b++) {
        if (b < base || b >= base + level.n) {
          level = parts[Math.floor(b / per) - stretch.first] ?? NO_LEVEL;
          base = b - (b % per);
        }
        const i = b - base;
        const cover = level.cover[i] ?? 0;
        if (cover === 0) continue;
        const own = level.value[i]!;
        const weight = states && isFaint(own) ? 0 : cover;
        filled += weight;
        flags |= level.flags[i]!;
        // The last two different things that must not be hidden; more are only counted, by SEVERAL.
        const note = level.note[i]!;
        if (note !== 0 && note !== noteA) {
          noteB = noteA;
          noteA = note;
        }
        // Buckets of different values in one pixel are items merged here, though each bucket held only one.
        if (value >= 0 && own !== value) flags |= MERGED;
        if (weight > best) {
          best = weight;
          value = own;
          bestCover = cover;
        }
      }
      if (value >= 0) {
        const cover = filled === 0 ? bestCover : filled / (b1 - b0);
        let alpha = Math.max(FAINTEST, cover) | 0;
        if (matches !== undefined) {
          if (noteA !== 0 && matches[(noteA - 1) >>> shift] === 1) alpha = 255;
          if (matches[value >>> shift] !== 1) alpha = (alpha * DIMMED) | 0;
        }
        body[at + p] = ((inks.of(value) & 0xffffff) | (alpha << 24)) >>> 0;
        // Of two things worth noting the one that the body does not show already.
        const note = noteA === value + 1 ? noteB : noteA;
        if (note !== 0) edge[at + p] = inks.of(note - 1);
        else if ((flags & MERGED) !== 0) edge[at + p] = shade;
        if ((flags & SEVERAL) !== 0 || (note === noteA && noteB !== 0 && noteB !== value + 1)) mark[at + p] = markInk;
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
