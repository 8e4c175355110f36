// The canvas of a flame graph: pointer, keys and drawing. What is shown is its owner's business.
import type { CodeFunction } from "../data/call-paths";
import type { Box } from "../data/flame";
import { drawFlame, FLAME_ROW, flameAt, type Flame, type Narrow, type PlacedBox } from "../draw/flame";
import type { Theme } from "../draw/palette";
import { h } from "./dom";

/** What the canvas shows, and whom it tells of what a person does. */
export interface FlameCanvasParts {
  functions: () => readonly CodeFunction[];
  theme: () => Theme;
  matches: () => Uint8Array | undefined;
  /** The boxes for a width in CSS pixels. */
  place: (width: number) => Flame;
  /** A box was clicked, or Enter pressed on it. */
  zoom: (box: Box) => void;
  /** Escape or a double click; false: there is nothing to go back to. */
  back: () => boolean;
  /** The keys or a click went to this box. */
  at: (box: Box) => void;
  describe: (what: PlacedBox | Narrow) => HTMLElement[];
}

export class FlameCanvas {
  readonly canvas = h("canvas", { class: "flame-canvas", tabindex: 0, role: "application", "aria-label": "Flame graph: arrow keys go to callers, callees and neighbours, Enter zooms, Escape goes back" });
  /** The scrolled part of the panel that the canvas is in. */
  readonly element = h("div", { class: "flame-box" }, this.canvas);
  private readonly tip = h("div", { class: "tooltip", hidden: true, role: "tooltip" });
  private flame: Flame = { placed: [], narrow: [], rows: 0, middle: 0 };
  private hover: Box | undefined;
  private frame = 0;
  /** The box that the keys are at. */
  current: Box | undefined;

  constructor(private readonly parts: FlameCanvasParts) {
    const { canvas } = this;
    document.body.append(this.tip);
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("click", (event) => this.clicked(event));
    canvas.addEventListener("dblclick", () => this.parts.back());
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.ask()).observe(this.element);
  }

  private toReveal: number | undefined;

  /** Scrolls the next picture so that its middle is at `share` of the height. */
  reveal(share: number): void {
    this.toReveal = share;
  }

  /** What is shown has changed. */
  ask(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { canvas, element, parts } = this;
    const width = element.clientWidth;
    if (width === 0) return;
    this.flame = parts.place(width);
    const dpr = window.devicePixelRatio || 1;
    const height = this.flame.rows * FLAME_ROW;
    canvas.width = Math.round(width * dpr);
    canvas.height = Math.round(height * dpr);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    if (this.toReveal !== undefined) element.scrollTop = (this.flame.middle + 0.5) * FLAME_ROW - element.clientHeight * this.toReveal;
    this.toReveal = undefined;
    this.paint();
  }

  /** The same boxes, with another one framed. */
  private paint(): void {
    const pen = this.canvas.getContext("2d", { alpha: false });
    if (!pen) return;
    const { parts, hover, current, flame } = this;
    drawFlame(pen, flame, { functions: parts.functions(), theme: parts.theme(), matches: parts.matches(), hover, at: current, dpr: window.devicePixelRatio || 1, fromRow: 0, toRow: flame.rows }, this.element.clientWidth);
  }

  private leave(): void {
    this.tip.hidden = true;
    if (!this.hover) return;
    this.hover = undefined;
    this.paint();
  }

  private what(event: MouseEvent): PlacedBox | Narrow | undefined {
    const place = this.canvas.getBoundingClientRect();
    return flameAt(this.flame, event.clientX - place.left, event.clientY - place.top);
  }

  private moved(event: PointerEvent): void {
    const found = this.what(event);
    if (!found) {
      this.leave();
      return;
    }
    const box = "box" in found ? found.box : undefined;
    if (box === undefined || box !== this.hover) this.tip.replaceChildren(...this.parts.describe(found));
    if (box !== this.hover) {
      this.hover = box;
      this.paint();
    }
    this.placeTip(event.clientX, event.clientY);
  }

  /** Beside the pointer, and inside the window. */
  private placeTip(x: number, y: number): void {
    const { tip } = this;
    tip.hidden = false;
    const left = x + 14 + tip.offsetWidth > window.innerWidth ? x - tip.offsetWidth - 10 : x + 14;
    const top = y + 16 + tip.offsetHeight > window.innerHeight ? y - tip.offsetHeight - 10 : y + 16;
    tip.style.transform = `translate(${Math.max(0, left)}px, ${Math.max(0, top)}px)`;
  }

  private clicked(event: MouseEvent): void {
    const found = this.what(event);
    if (!found || !("box" in found)) return;
    this.leave();
    this.go(found.box);
    this.parts.zoom(found.box);
  }

  /** The keys are at `box` now. */
  private go(box: Box): void {
    this.current = box;
    this.parts.at(box);
    this.paint();
    const placed = this.flame.placed.find((at) => at.box === box);
    if (placed) this.scrollTo(placed.row);
  }

  private scrollTo(row: number): void {
    const box = this.element;
    if (row * FLAME_ROW < box.scrollTop) box.scrollTop = row * FLAME_ROW;
    else if ((row + 1) * FLAME_ROW > box.scrollTop + box.clientHeight) box.scrollTop = (row + 1) * FLAME_ROW - box.clientHeight;
  }

  /** Keys that mean something here go no further: the chart has keys of its own. */
  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { current } = this;
    const here = this.flame.placed.find(({ box }) => box === current) ?? this.flame.placed[0];
    let done = true;
    if (event.key === "Escape" || event.key === "Backspace") done = this.parts.back();
    else if (event.key === "Enter" && here) this.parts.zoom(here.box);
    else if (event.key.startsWith("Arrow") && here) this.step(here, event.key);
    else done = false;
    if (!done) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Goes from box to box: rows above and below at the same place, neighbours in the same row. The first step goes to the first box. */
  private step(here: PlacedBox, key: string): void {
    const { placed } = this.flame;
    if (this.current !== here.box) {
      this.go(here.box);
      return;
    }
    const along = key === "ArrowLeft" || key === "ArrowRight";
    const row = here.row + (key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0);
    const candidates = placed.filter((box) => box.row === row && (along ? (key === "ArrowLeft" ? box.x1 <= here.x0 + 0.01 : box.x0 >= here.x1 - 0.01) : box.x1 > here.x0 && box.x0 < here.x1));
    // The nearest neighbour; above and below, the widest that lies over or under this one.
    const better = along ? (a: PlacedBox, b: PlacedBox) => Math.abs(a.x0 - here.x0) < Math.abs(b.x0 - here.x0) : (a: PlacedBox, b: PlacedBox) => a.x1 - a.x0 > b.x1 - b.x0;
    const next = candidates.reduce<PlacedBox | undefined>((best, box) => (!best || better(box, best) ? box : best), undefined);
    if (next) this.go(next.box);
  }
}
