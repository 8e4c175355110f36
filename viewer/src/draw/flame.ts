// A flame graph as boxes on a canvas: where each box of a tree is, and how it is drawn.
import { CodeKind, type CodeFunction } from "../data/call-paths";
import { Group, type Box } from "../data/flame";
import { pointsOf } from "../data/flame-diff";
import { shortName } from "../view/code-name";
import { fit } from "./frame";
import { changeColour, codeColour, css, meaningColour, onColour, type Rgb, type Theme } from "./palette";
import type { Pen } from "./pen";

/** Height of a row of boxes, CSS pixels; a pixel of it parts it from the next. */
export const FLAME_ROW = 18;
/** Boxes narrower than this are not drawn one by one, CSS pixels. */
const NARROWEST = 0.7;
/** Narrower boxes have no text, CSS pixels. */
const LABEL = 26;
const FONT = "11px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

/** A box on the canvas: its ends in CSS pixels, its row counted from the top. */
export interface PlacedBox {
  box: Box;
  x0: number;
  x1: number;
  row: number;
  /** It encloses what was zoomed to. */
  outer: boolean;
}

/** Boxes side by side that are too narrow to be drawn. */
export interface Narrow {
  x0: number;
  x1: number;
  row: number;
  boxes: number;
  ns: number;
}

export interface Flame {
  placed: PlacedBox[];
  narrow: Narrow[];
  rows: number;
  /** The row of what it is about: where it divides, or the function between its callers and callees. */
  middle: number;
}

/** The boxes that enclose `box`, outermost first, without it. */
export function enclosing(box: Box): Box[] {
  const found: Box[] = [];
  for (let at = box.parent; at; at = at.parent) found.unshift(at);
  return found;
}

/** `focus` over the whole width, what encloses it above, what it holds below. */
export function placeTree(focus: Box, width: number): Flame {
  const flame: Flame = { placed: [], narrow: [], rows: 0, middle: 0 };
  const outer = enclosing(focus);
  outer.forEach((box, row) => flame.placed.push({ box, x0: 0, x1: width, row, outer: true }));
  place(flame, focus, 0, width, outer.length, 1);
  flame.rows = 1 + flame.placed.reduce((most, { row }) => Math.max(most, row), 0);
  flame.middle = outer.length + trunkOf(focus);
  return flame;
}

/** Rows below `focus` until the first whose largest box is narrower than this share of it. */
const TRUNK = 0.95;

/** Rows of frames that nearly all of `focus` has in common, such as those that start a thread. */
function trunkOf(focus: Box): number {
  let rows = 0;
  for (let [first] = focus.children(); first && first.total >= TRUNK * focus.total; [first] = first.children()) rows++;
  return rows;
}

/** A function's callers above it, and what it calls below; the nearest ones next to it. */
export function placeSandwich(parts: { callers: Box; callees: Box }, width: number): Flame {
  const above: Flame = { placed: [], narrow: [], rows: 0, middle: 0 };
  place(above, parts.callers, 0, width, 0, -1);
  const top = above.placed.reduce((most, { row }) => Math.max(most, -row), 0);
  const flame: Flame = { placed: [], narrow: [], rows: 0, middle: 0 };
  place(flame, parts.callees, 0, width, top, 1);
  flame.middle = top;
  const moved = <T extends { row: number }>(of: T): T => ({ ...of, row: of.row + top });
  // The function itself is in both.
  flame.placed.push(...above.placed.slice(1).map(moved));
  flame.narrow.push(...above.narrow.map(moved));
  flame.rows = 1 + flame.placed.reduce((most, { row }) => Math.max(most, row), 0);
  return flame;
}

/** Places `box` at `row` and all that it holds in the rows after it, `step` 1 below or -1 above. */
function place(flame: Flame, box: Box, x0: number, x1: number, row: number, step: 1 | -1): void {
  flame.placed.push({ box, x0, x1, row, outer: false });
  if (box.total <= 0) return;
  const scale = (x1 - x0) / box.total;
  let x = x0;
  const narrow: Narrow = { x0: 0, x1: 0, row: row + step, boxes: 0, ns: 0 };
  for (const child of box.children()) {
    const end = Math.min(x1, x + child.total * scale);
    // The largest come first: from the first narrow one on all are.
    if (end - x < NARROWEST) {
      if (narrow.boxes++ === 0) narrow.x0 = x;
      narrow.ns += child.total;
      narrow.x1 = end;
    } else place(flame, child, x, end, row + step, step);
    x = end;
  }
  if (narrow.x1 - narrow.x0 >= NARROWEST) flame.narrow.push(narrow);
}

/** What a box is called. */
export function boxName(box: Box, functions: readonly CodeFunction[]): string {
  switch (box.fn) {
    case Group.All:
      return "all";
    case Group.Running:
      return "on CPU";
    case Group.Waiting:
      return "waiting";
    case Group.NoStack:
      return "no stack";
    default:
      return functions[box.fn]?.name ?? "?";
  }
}

/**
 * A function's kind of code; the sums of running and of waiting have the colours of these states. All of it is a heading. In a
 * comparison the change of its share.
 */
function boxColour(box: Box, functions: readonly CodeFunction[], { dark, head }: Theme): Rgb {
  if (box.sides) return changeColour(pointsOf(box.sides), dark) ?? parseInt(head.slice(1), 16);
  switch (box.fn) {
    case Group.All:
      return parseInt(head.slice(1), 16);
    case Group.Running:
      return meaningColour("running", dark);
    case Group.Waiting:
      return meaningColour("sleeping", dark);
    default:
      return codeColour(functions[box.fn]?.kind ?? CodeKind.Unknown, dark);
  }
}

/** What a frame of a flame graph shows besides its boxes. */
export interface FlameStyle {
  functions: readonly CodeFunction[];
  theme: Theme;
  /** By function: 1 where it is looked for; all others are pale. */
  matches: Uint8Array | undefined;
  /** The box under the pointer, and the one that the keys are at. */
  hover: Box | undefined;
  at: Box | undefined;
  dpr: number;
  /** The rows in view: only they are drawn. */
  fromRow: number;
  toRow: number;
}

const PALE = 0.25;
const OUTER = 0.6;

export function drawFlame(pen: Pen, flame: Flame, style: FlameStyle, width: number): void {
  const { theme, functions, dpr } = style;
  pen.setTransform(dpr, 0, 0, dpr, 0, 0);
  pen.fillStyle = theme.background;
  pen.fillRect(0, style.fromRow * FLAME_ROW, width, (style.toRow - style.fromRow + 1) * FLAME_ROW);
  pen.font = FONT;
  pen.textBaseline = "middle";
  for (const placed of flame.placed) {
    if (placed.row < style.fromRow || placed.row > style.toRow) continue;
    drawBox(pen, placed, style, boxColour(placed.box, functions, theme));
  }
  pen.fillStyle = theme.muted;
  for (const { x0, x1, row } of flame.narrow) {
    // A dotted foot: something is here that is too narrow to be drawn.
    for (let x = x0; x < x1; x += 3) pen.fillRect(x, row * FLAME_ROW + 1, 1, 3);
  }
}

function drawBox(pen: Pen, { box, x0, x1, row, outer }: PlacedBox, style: FlameStyle, rgb: Rgb): void {
  const { matches, theme } = style;
  const y = row * FLAME_ROW;
  const pale = matches !== undefined && matches[box.fn] !== 1;
  pen.globalAlpha = pale ? PALE : outer ? OUTER : 1;
  pen.fillStyle = css(rgb);
  // A pixel parts neighbours where there is room for one.
  const width = Math.max(x1 - x0 - (x1 - x0 > 2 ? 1 : 0), 0.5);
  pen.fillRect(x0, y, width, FLAME_ROW - 1);
  pen.globalAlpha = 1;
  if (x1 - x0 >= LABEL) {
    const text = fit(pen, shortName(boxName(box, style.functions)), x1 - x0 - 8);
    pen.fillStyle = pale || outer ? theme.text : onColour(rgb);
    if (text !== "") pen.fillText(text, x0 + 4, y + FLAME_ROW / 2);
  }
  if (box !== style.hover && box !== style.at) return;
  pen.strokeStyle = theme.text;
  pen.lineWidth = box === style.at ? 2 : 1;
  pen.strokeRect(x0 + 1, y + 1, Math.max(1, x1 - x0 - 3), FLAME_ROW - 3);
}

/** What is at a place of the canvas. */
export function flameAt(flame: Flame, x: number, y: number): PlacedBox | Narrow | undefined {
  const row = Math.floor(y / FLAME_ROW);
  const here = (of: { x0: number; x1: number; row: number }): boolean => of.row === row && x >= of.x0 && x < of.x1;
  return flame.placed.find(here) ?? flame.narrow.find(here);
}
