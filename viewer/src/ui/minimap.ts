// The whole recording in a strip above the chart, with the part that is in view marked; it can be dragged.
import { Kind } from "../data/index";
import { drawArea } from "../draw/area";
import { css, meaningColour } from "../draw/palette";
import { pyramid } from "../data/lod";
import { overlap } from "../data/query";
import type { Line } from "../data/recording";
import type { Account } from "../data/account";
import { duration } from "../view/units";
import { clampRange } from "../view/viewport";
import { h } from "./dom";
import type { Navigation } from "./navigation";
import type { ViewState } from "./state";

// Height in CSS pixels, and in how many parts the recording is cut where there is no account to draw.
export const MINIMAP = 36;
const BUCKETS = 512;

/** How many lines were busy, by bucket: those of the recorded program, and all. */
interface Busy {
  own: Float64Array;
  all: Float64Array;
  lines: number;
}

export class Minimap {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly caption: HTMLElement;
  private busy: Busy | undefined;
  /** The strip without the marked part, drawn again only when it changes. */
  private picture: HTMLCanvasElement | undefined;

  /** `name` is what screen readers call it. */
  constructor(
    private readonly state: ViewState,
    private readonly account: Account,
    private readonly navigation: Navigation,
    name: string,
  ) {
    this.canvas = h("canvas", {
      class: "minimap",
      // A canvas without a size is 150 px high, and the chart would be measured beside that.
      style: `height:${MINIMAP}px`,
      tabindex: 0,
      role: "slider",
      "aria-label": "part of the recording in view; arrow keys move it",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.caption = h("div", { class: "minimap-caption" });
    this.element = h("section", { class: "minimap-row", "aria-label": name }, this.caption, this.canvas);
    this.bind();
  }

  /** What is drawn: CPUs when they were recorded, else the outermost slices of the program's threads. */
  private lines(): { lines: Line[]; what: string } {
    const { recording } = this.state;
    const cpus = recording.lines.filter((line) => line.kind === Kind.Cpu);
    if (cpus.length > 0) return { lines: cpus, what: `CPUs busy, of ${cpus.length}` };
    const slices = recording.lines.filter((line) => line.kind === Kind.Slice && line.depth === 0);
    return { lines: slices, what: `threads in slices, of ${slices.length}` };
  }

  /** Adds up what there is to show. With an account there is nothing to add up: its mix is drawn. */
  async load(): Promise<void> {
    const { account } = this;
    const { lines, what } = account.lines.length > 0 ? { lines: [], what: `account of ${account.lines.length} CPUs` } : this.lines();
    this.caption.replaceChildren(h("span", {}, "Overview"), h("span", { class: "muted" }, what));
    // Sums go into arrays of their own, which replace the old ones when they are whole: frames are drawn meanwhile.
    const busy: Busy = { own: new Float64Array(BUCKETS), all: new Float64Array(BUCKETS), lines: lines.length };
    for (const line of lines) await this.add(busy, line);
    this.busy = busy;
    this.picture = undefined;
    this.draw();
  }

  /** Whether an item is the recorded program's. */
  private own(line: Line, value: number): boolean {
    if (line.kind !== Kind.Cpu) return true;
    const { threads, processes } = this.state.recording.index;
    return processes[threads[value - 1]?.process ?? -1]?.target === true;
  }

  /** Adds a line: from its level where it has one, which holds shares of buckets already, else from its items. */
  private async add(busy: Busy, line: Line): Promise<void> {
    const { recording } = this.state;
    const put = (bucket: number, share: number, value: number): void => {
      busy.all[bucket]! += share;
      if (this.own(line, value)) busy.own[bucket]! += share;
    };
    if (line.levels.length > 0) {
      // Levels are halves of each other; where the one of BUCKETS is not among them, it is made from the coarsest.
      const level = line.levels.find((level) => level.n === BUCKETS) ?? pyramid(line.levels[0]!, line.kind, BUCKETS)[0]!;
      for (let b = 0; b < BUCKETS; b++) put(b, level.cover[b]! / 255, level.value[b]!);
      return;
    }
    const width = recording.length / BUCKETS;
    for (let u = 0; u < line.nUnits; u++) {
      const unit = await recording.unit(line, u);
      for (let i = 0; i < unit.n; i++) {
        // An item is spread over the buckets it overlaps. The last instant of the recording is at the end of the last bucket.
        const last = Math.min(BUCKETS - 1, Math.floor(unit.end[i]! / width));
        for (let b = Math.floor(unit.start[i]! / width); b <= last; b++) put(b, overlap(unit.start[i]!, unit.end[i]!, b * width, (b + 1) * width) / width, unit.value[i]!);
      }
    }
  }

  /** The chart has another width; the strip is as wide. */
  resize(width: number): void {
    const dpr = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(MINIMAP * dpr);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${MINIMAP}px`;
    this.picture = undefined;
    this.draw();
  }

  rethemed(): void {
    this.picture = undefined;
    this.draw();
  }

  /** Draws the strip, dims what is out of view and marks the notes and the pointer. Called with every frame, so the strip itself is a picture. */
  draw(): void {
    const { state, canvas } = this;
    const { theme, view, recording } = state;
    const dpr = window.devicePixelRatio || 1;
    const width = canvas.width / dpr;
    const ctx = canvas.getContext("2d", { alpha: false });
    if (!ctx || width < 1) return;
    this.picture ??= this.paint(canvas.width, canvas.height);
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.drawImage(this.picture, 0, 0);
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    // The strip shows all of the recording, so its scale has nothing to do with the view's.
    const x = (t: number): number => (t / recording.length) * width;
    state.notes.forEach((note) => {
      ctx.fillStyle = theme.note;
      ctx.fillRect(x(note.t0), 0, Math.max(2, x(note.t1) - x(note.t0)), 4);
    });
    const x0 = Math.max(0, x(view.t0));
    // The marked part is at least 3 px wide, or it could be neither seen nor grabbed.
    const x1 = Math.min(width, Math.max(x(view.t1), x0 + 3));
    ctx.fillStyle = theme.dark ? "#0b0e11b0" : "#f2f4f6c8";
    ctx.fillRect(0, 0, x0, MINIMAP);
    ctx.fillRect(x1, 0, width - x1, MINIMAP);
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(x0 + 0.75, 0.75, Math.max(1.5, x1 - x0 - 1.5), MINIMAP - 1.5);
    if (state.cursor !== undefined) {
      ctx.fillStyle = theme.accent;
      ctx.fillRect(x(state.cursor), 0, 1, MINIMAP);
    }
    // For screen readers the strip is a slider whose value is the middle of the view, in percent of the recording.
    const middle = (100 * (view.t0 + view.t1)) / 2 / recording.length;
    canvas.setAttribute("aria-valuenow", String(Math.round(Math.min(100, Math.max(0, middle)))));
    canvas.setAttribute("aria-valuetext", `${duration(view.t1 - view.t0)} in view from ${duration(Math.max(0, view.t0 - state.origin))}`);
  }

  /** The strip without marks: the account, or how many lines were busy. */
  private paint(width: number, height: number): HTMLCanvasElement {
    const { theme } = this.state;
    const picture = document.createElement("canvas");
    picture.width = Math.max(1, width);
    picture.height = Math.max(1, height);
    const ctx = picture.getContext("2d")!;
    ctx.fillStyle = theme.background;
    ctx.fillRect(0, 0, width, height);
    if (this.account.lines.length > 0) {
      const whole = { t0: 0, t1: this.state.recording.length, width, height, scroll: 0 };
      drawArea(ctx, this.account, undefined, whole, theme, 2, height - 2, 1);
      return picture;
    }
    const { busy } = this;
    if (!busy) return picture;
    const each = width / BUCKETS;
    const room = height - 4;
    // All programs first, then the recorded one over it: what remains visible of the first is other programs' work.
    for (const [values, meaning] of [[busy.all, "interference"], [busy.own, "running"]] as const) {
      ctx.fillStyle = css(meaningColour(meaning, theme.dark));
      ctx.beginPath();
      ctx.moveTo(0, height);
      values.forEach((value, b) => {
        const y = height - (room * Math.min(busy.lines, value)) / Math.max(1, busy.lines);
        ctx.lineTo(b * each, y);
        ctx.lineTo((b + 1) * each, y);
      });
      ctx.lineTo(width, height);
      ctx.fill();
    }
    return picture;
  }

  /** Dragging inside the marked part moves it, beside it marks another; a click centres the view. */
  private bind(): void {
    const { state, navigation, canvas } = this;
    const timeAt = (event: PointerEvent): number => {
      const box = canvas.getBoundingClientRect();
      return ((event.clientX - box.left) / box.width) * state.recording.length;
    };
    canvas.addEventListener("pointerdown", (event) => {
      const from = timeAt(event);
      const { t0, t1 } = state.view;
      // Nearly everything in view: there is nowhere to move it, so a drag marks a new part.
      const grab = from >= t0 && from <= t1 && t1 - t0 < state.recording.length * 0.98;
      // Inside the marked part: move it. Beside it: mark a new one.
      canvas.setPointerCapture(event.pointerId);
      let moved = false;
      const move = (e: PointerEvent): void => {
        const at = timeAt(e);
        // A hand that clicks moves the pointer a little.
        moved ||= Math.abs(e.clientX - event.clientX) > 3;
        if (!moved) return;
        if (grab) navigation.show(clampRange(t0 + at - from, t1 + at - from, state.recording.length));
        else navigation.show(clampRange(Math.min(from, at), Math.max(from, at), state.recording.length));
      };
      canvas.addEventListener("pointermove", move);
      canvas.addEventListener(
        "pointerup",
        () => {
          canvas.removeEventListener("pointermove", move);
          // A click beside the marked part brings that place into the middle, at the same zoom.
          if (!moved && !grab) navigation.show(clampRange(from - (t1 - t0) / 2, from + (t1 - t0) / 2, state.recording.length));
        },
        { once: true },
      );
    });
  }

  /** Arrow keys move by a quarter of the view, page keys by all of it. */
  private key(event: KeyboardEvent): void {
    const by = { ArrowLeft: -0.25, ArrowRight: 0.25, PageUp: -1, PageDown: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const { t0, t1 } = this.state.view;
    this.navigation.show(clampRange(t0 + by * (t1 - t0), t1 + by * (t1 - t0), this.state.recording.length));
  }
}
