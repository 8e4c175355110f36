// Arrows between threads: wake-ups and the program's own flows.
import { kindOf } from "../data/value";
import { MAX_ARROWS, type Arrow, type ArrowKind } from "../data/arrow";
import { cell, SliceColumn, StateColumn } from "../data/columns";
import { Kind, SliceKind, State } from "../data/index";
import { itemsBetween, unitsBetween } from "../data/query";
import type { Line, Recording } from "../data/recording";
import { xOf, type Viewport } from "../view/viewport";
import type { Layout } from "../view/layout";
import { stolen, type Tasks } from "../data/tasks";
import { css, meaningColour, type Meaning } from "./palette";
import type { Pen } from "./pen";
import { AXIS, visibleTracks, type Scene } from "./scene";

// The colours' meanings are those of the palette, so that the legend and the menu agree with the chart.
const MEANING_OF_ARROW: Record<ArrowKind, Meaning> = { wake: "wakeArrow", flow: "flowArrow", create: "createArrow", steal: "stealArrow" };

export function arrowColour(kind: ArrowKind, dark: boolean): string {
  return css(meaningColour(MEANING_OF_ARROW[kind], dark));
}

/** Adds the creation of the tasks that `wanted` names, from their creators to their first runs. */
export function creations(tasks: Tasks, view: { t0: number; t1: number }, wanted: (task: number) => "create" | "steal" | undefined, out: Arrow[]): void {
  for (let i = 0; i < tasks.n && out.length <= MAX_ARROWS; i++) {
    const from = tasks.created[i]!;
    const to = tasks.started[i]!;
    // Written so that NaN, a task that never ran, is out of view.
    if (!(to >= view.t0 && from <= view.t1)) continue;
    const kind = wanted(i);
    if (kind === undefined || tasks.creator[i]! < 0 || tasks.runner[i]! < 0) continue;
    out.push({ kind: stolen(tasks, i) ? "steal" : kind, fromThread: tasks.creator[i]!, toThread: tasks.runner[i]!, from, to, strong: false });
  }
}

/** Adds moves of running tasks: suspended by one thread, carried on by another. Only runs that are decoded and in view. */
export function moves(recording: Recording, lines: Line[], view: Viewport, out: Arrow[]): void {
  // Where each task ran last. A run elsewhere than the one before is a move.
  const last = new Map<number, { thread: number; end: number }>();
  const runs: { task: number; thread: number; start: number; end: number }[] = [];
  for (const line of lines) {
    const [first, end] = unitsBetween(line, view.t0, view.t1);
    for (let u = first; u < end; u++) {
      // `peek`, not `want`: arrows follow what is drawn, and must not have everything decoded.
      const unit = recording.peek(line, u);
      if (!unit) continue;
      const [i0, i1] = itemsBetween(unit, view.t0, view.t1);
      // So many runs are narrower than a pixel: their arrows would be a carpet.
      if (i1 - i0 > 20_000) return;
      for (let i = i0; i < i1; i++) {
        if (kindOf(unit.value[i]!) !== SliceKind.TaskRun) continue;
        const task = cell(unit, SliceColumn.Task, i);
        if (task > 0) runs.push({ task, thread: line.owner, start: unit.start[i]!, end: unit.end[i]! });
      }
    }
  }
  // Runs were collected thread by thread; a task's runs follow each other in time only.
  runs.sort((a, b) => a.start - b.start);
  for (const run of runs) {
    const before = last.get(run.task);
    if (before && before.thread !== run.thread && out.length <= MAX_ARROWS) {
      out.push({ kind: "steal", fromThread: before.thread, toThread: run.thread, from: before.end, to: run.start, strong: false });
    }
    last.set(run.task, { thread: run.thread, end: run.end });
  }
}

/** Adds the wake-ups of the thread of `line` that are in view. */
export function wakeups(recording: Recording, line: Line, view: Viewport, out: Arrow[]): void {
  const [first, last] = unitsBetween(line, view.t0, view.t1);
  for (let u = first; u < last; u++) {
    const unit = recording.want(line, u);
    if (!unit) continue;
    const [i0, i1] = itemsBetween(unit, view.t0, view.t1);
    for (let i = i0; i < i1 && out.length <= MAX_ARROWS; i++) {
      if (unit.value[i] !== State.Woken) continue;
      // Threads are stored plus one; -1 is an interrupt, which has no row to draw from.
      const by = cell(unit, StateColumn.By, i) - 1;
      if (by < 0) continue;
      out.push({ fromThread: by, toThread: line.owner, from: unit.start[i]!, to: unit.end[i]!, kind: "wake", strong: false });
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

/** Draws `arrows`. One whose other end is out of sight becomes a dashed stub. */
export function drawArrows(ctx: Pen, arrows: Arrow[], scene: Scene): void {
  if (arrows.length === 0) return;
  const { view, theme } = scene;
  const where = anchor(scene);
  ctx.save();
  ctx.beginPath();
  // Arrows to rows that scrolled up must not be drawn over the axis.
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
    const colour = arrowColour(arrow.kind, theme.dark);
    ctx.strokeStyle = colour;
    ctx.fillStyle = colour;
    ctx.globalAlpha = arrow.strong ? 1 : 0.65;
    ctx.lineWidth = arrow.strong ? 2 : 1;
    ctx.setLineDash(y0 === undefined || y1 === undefined ? [3, 3] : []);
    // A wake-up happens at one instant: its arrow is vertical, and the dashes below say how long the thread then waited.
    curve(ctx, x0, from, arrow.kind === "wake" ? x0 : x1, to);
    if (arrow.kind === "wake" && x1 - x0 > 3 && y1 !== undefined) {
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

/** A curve with a head; what is nearly vertical is a straight line. */
function curve(ctx: Pen, x0: number, y0: number, x1: number, y1: number): void {
  // 1: the arrow points down the screen; -1: up.
  const down = Math.sign(y1 - y0) || 1;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  if (Math.abs(x1 - x0) < 2) {
    ctx.lineTo(x1, y1 - 5 * down);
  } else {
    // It leaves and arrives horizontally, as time does.
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
