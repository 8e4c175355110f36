// Arrows between threads: wake-ups and the program's own flows.
import { MAX_ARROWS, type Arrow } from "../data/arrow";
import { cell, StateColumn } from "../data/columns";
import { Kind, State } from "../data/index";
import { itemsBetween, unitsBetween } from "../data/query";
import type { Line, Recording } from "../data/recording";
import { xOf, type Viewport } from "../view/viewport";
import { AXIS, visibleTracks, type Scene } from "./frame";
import type { Layout } from "../view/layout";

/** Adds the wake-ups of the thread of `line` that are in view. */
export function wakeups(recording: Recording, line: Line, view: Viewport, out: Arrow[]): void {
  const [first, last] = unitsBetween(line, view.t0, view.t1);
  for (let u = first; u < last; u++) {
    const unit = recording.want(line, u);
    if (!unit) continue;
    const [i0, i1] = itemsBetween(unit, view.t0, view.t1);
    for (let i = i0; i < i1 && out.length <= MAX_ARROWS; i++) {
      if (unit.value[i] !== State.Woken) continue;
      const by = cell(unit, StateColumn.By, i) - 1;
      if (by < 0) continue;
      out.push({ fromThread: by, toThread: line.owner, from: unit.start[i]!, to: unit.end[i]!, flow: false, strong: false });
    }
  }
}

/** Where a thread's state row is on the screen: its middle, or undefined. */
function anchor(scene: { layout: Layout; view: Viewport }): Map<number, number> {
  const at = new Map<number, number>();
  for (const { track, y } of visibleTracks(scene)) {
    if (track.kind !== "thread" || at.has(track.ref)) continue;
    const row = track.rows.find((row) => row.line.kind === Kind.State) ?? track.rows[0];
    at.set(track.ref, y + (row ? row.y + row.height / 2 : track.height / 2));
  }
  return at;
}

export function drawArrows(ctx: CanvasRenderingContext2D, arrows: Arrow[], scene: Scene): void {
  if (arrows.length === 0) return;
  const { view, theme } = scene;
  const where = anchor(scene);
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, AXIS, view.width, view.height);
  ctx.clip();
  for (const arrow of arrows) {
    const y0 = where.get(arrow.fromThread);
    const y1 = where.get(arrow.toThread);
    if (y0 === undefined && y1 === undefined) continue;
    const x0 = xOf(view, arrow.from);
    const x1 = xOf(view, arrow.to);
    if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > view.width) continue;
    // The other end is not on the screen: a stub says from where.
    const from = y0 ?? (y1 ?? 0) - 18;
    const to = y1 ?? from + 18;
    ctx.strokeStyle = arrow.flow ? (theme.dark ? "#d7a8ff" : "#7b2fbf") : theme.dark ? "#dfe6ee" : "#24292f";
    ctx.fillStyle = ctx.strokeStyle;
    ctx.globalAlpha = arrow.strong ? 1 : 0.65;
    ctx.lineWidth = arrow.strong ? 2 : 1;
    ctx.setLineDash(y0 === undefined || y1 === undefined ? [3, 3] : []);
    curve(ctx, x0, from, arrow.flow ? x1 : x0, to);
    if (!arrow.flow && x1 - x0 > 3 && y1 !== undefined) {
      // From being woken to running.
      ctx.setLineDash([2, 2]);
      ctx.beginPath();
      ctx.moveTo(x0, to + 5);
      ctx.lineTo(x1, to + 5);
      ctx.stroke();
    }
  }
  ctx.restore();
}

function curve(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  const down = Math.sign(y1 - y0) || 1;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  if (Math.abs(x1 - x0) < 2) {
    ctx.lineTo(x1, y1 - 5 * down);
  } else {
    const bend = Math.max(12, Math.abs(x1 - x0) / 2);
    ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
  }
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  if (Math.abs(x1 - x0) < 2) {
    ctx.moveTo(x1, y1);
    ctx.lineTo(x1 - 3.5, y1 - 7 * down);
    ctx.lineTo(x1 + 3.5, y1 - 7 * down);
  } else {
    ctx.moveTo(x1, y1);
    ctx.lineTo(x1 - 7, y1 - 3.5);
    ctx.lineTo(x1 - 7, y1 + 3.5);
  }
  ctx.fill();
}
