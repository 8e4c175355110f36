// A counter: a step function between its smallest and largest value.
import { CounterColumn, float, type Unit } from "../data/columns";
import { partition } from "../data/query";
import type { Row } from "../view/layout";
import { xOf } from "../view/viewport";
import { css, nameColour } from "./palette";
import type { Pen } from "./pen";
import type { Scene } from "./scene";

// Weak: when the recording forgets a unit, its values go too.
const values = new WeakMap<Unit, Float64Array>();

/** Values are stored as bits; they are decoded once for each unit. */
function valuesOf(unit: Unit): Float64Array {
  let known = values.get(unit);
  if (!known) {
    known = Float64Array.from({ length: unit.n }, (_, i) => float(unit, CounterColumn.Value, i));
    values.set(unit, known);
  }
  return known;
}

/** Draws the counter in `row`; false when some of it is not decoded yet. */
export function drawCounter(ctx: Pen, scene: Scene, row: Row, y: number): boolean {
  const { recording, view, theme } = scene;
  const counter = recording.index.counters[row.line.owner];
  if (!counter) return true;
  // The scale is that of the whole recording and holds 0, so that heights can be compared at any zoom.
  const low = Math.min(0, counter.min);
  const high = Math.max(counter.max, low + 1e-300);
  const height = row.height - 4;
  const yOf = (v: number): number => y + 2 + height - ((v - low) / (high - low)) * height;
  const colour = css(nameColour(recording.text(counter.name), theme.dark));
  let complete = true;
  ctx.fillStyle = colour;
  // Areas are filled down to 0, also for negative values.
  const floor = yOf(Math.max(low, 0));
  const { line } = row;
  for (let u = 0; u < line.nUnits; u++) {
    // A value lasts until the next change, which may be the first of the next unit.
    const next = u + 1 < line.nUnits ? line.from[u + 1]! : recording.length;
    if (next < view.t0 || line.from[u]! > view.t1) continue;
    const unit = recording.want(line, u);
    if (unit) steps(ctx, scene, unit, next, yOf, floor);
    else complete = false;
  }
  plate(ctx, scene, label(counter.max), y + 9);
  if (low < 0) plate(ctx, scene, label(counter.min), y + row.height - 10);
  return complete;
}

/** Draws one unit; what falls into one pixel becomes one bar, so that no peak is lost. */
function steps(ctx: Pen, scene: Scene, unit: Unit, end: number, yOf: (v: number) => number, floor: number): void {
  const { view } = scene;
  const value = valuesOf(unit);
  // The last change before the view says which value the view begins with.
  const first = Math.max(0, partition(unit.n, (i) => unit.start[i]! <= view.t0) - 1);
  const last = partition(unit.n, (i) => unit.start[i]! < view.t1);
  for (let i = first; i < last; ) {
    const x0 = Math.max(0, xOf(view, unit.start[i]!));
    // All values inside one pixel are one bar that reaches from the smallest to the largest.
    let low = value[i]!;
    let high = low;
    let j = i + 1;
    while (j < last && xOf(view, unit.start[j]!) < x0 + 1) {
      low = Math.min(low, value[j]!);
      high = Math.max(high, value[j]!);
      j++;
    }
    const x1 = Math.min(view.width, xOf(view, j < unit.n ? unit.start[j]! : end));
    const top = yOf(high);
    ctx.globalAlpha = 0.35;
    ctx.fillRect(x0, Math.min(top, floor), Math.max(1, x1 - x0), Math.abs(floor - top));
    ctx.globalAlpha = 1;
    ctx.fillRect(x0, top - 0.75, Math.max(1, x1 - x0), 1.5 + (low === high ? 0 : yOf(low) - top));
    i = j;
  }
}

/** A number of the scale, readable on whatever is drawn there. */
function plate(ctx: Pen, { theme }: Scene, text: string, y: number): void {
  ctx.globalAlpha = 0.75;
  ctx.fillStyle = theme.background;
  ctx.fillRect(1, y - 7, ctx.measureText(text).width + 7, 14);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.muted;
  ctx.fillText(text, 4, y);
}

/** Very large and very small values as powers of ten. */
function label(value: number): string {
  return Math.abs(value) >= 1e5 || (Math.abs(value) < 1e-3 && value !== 0) ? value.toExponential(2) : String(Math.round(value * 1000) / 1000);
}
