// The chart's elements, and when they are drawn: at most once a frame of the browser.
import { Painter } from "../draw/frame";
import { AXIS, type Scene } from "../draw/scene";
import { h } from "./dom";
import { Signal } from "./signal";
import type { ViewState } from "./state";

export class Stage {
  readonly canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": "Gantt chart: j and k select items, arrow keys move, question mark lists all keys", class: "canvas" });
  readonly headers = h("div", { class: "headers" });
  readonly chart: HTMLElement;
  readonly painter = new Painter();
  /** A frame was drawn. */
  readonly drawn = new Signal();
  /** The chart has this width now, CSS pixels. */
  readonly resized = new Signal<number>();
  /** Whether the last frame lacked nothing that is still being decoded. */
  complete = false;
  /** ms of script of the last frame, for benchmarks. */
  frameMs = 0;
  private readonly stage: HTMLElement;
  private readonly spacer = h("div", { class: "spacer" });
  private readonly empty = h("p", { class: "empty-chart", hidden: true }, "No row has this name, or all are hidden.");
  private frame = 0;

  /** `name` is the chart's for screen readers; `main`: the page has no other chart. */
  constructor(
    private readonly state: ViewState,
    name: string,
    main: boolean,
  ) {
    this.stage = h("div", { class: "stage" }, this.headers, this.canvas, this.empty);
    this.chart = h(main ? "main" : "section", { class: "chart", "aria-label": name }, this.stage, this.spacer);
    this.chart.addEventListener("scroll", () => {
      state.view.scroll = this.chart.scrollTop;
      state.changed();
    });
  }

  /** From now on draws what `scene` gives, whenever the state says so; the first frame is asked for by whoever has chosen the rows. */
  start(scene: () => Scene): void {
    this.scene = scene;
    this.state.frame.on(() => this.ask());
    this.state.arranged.on(() => this.fitScroll());
    new ResizeObserver(() => this.resize()).observe(this.chart);
  }

  private scene: (() => Scene) | undefined;

  /** Whether a frame was asked for and is not drawn yet. */
  get asked(): boolean {
    return this.frame !== 0;
  }

  private ask(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => this.draw());
  }

  draw(): void {
    if (!this.scene) return;
    const began = performance.now();
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    // What the last frame lacked may be out of view: this one asks anew.
    this.state.recording.forgetWants();
    this.complete = this.painter.draw(this.canvas.getContext("2d", { alpha: false })!, this.scene());
    this.drawn.emit();
    this.frameMs = performance.now() - began;
  }

  /** The chart has another size now. */
  private resize(): void {
    this.measure();
    if (this.state.compact) this.state.arrange();
    this.fitScroll();
    this.draw();
  }

  /** Takes the chart's size from the page; nothing is laid out or drawn. */
  measure(): void {
    const { canvas, chart, stage } = this;
    const { view } = this.state;
    const dpr = window.devicePixelRatio || 1;
    view.width = Math.max(50, chart.clientWidth - this.headers.offsetWidth);
    view.height = Math.max(50, chart.clientHeight);
    stage.style.height = `${view.height}px`;
    canvas.width = Math.round(view.width * dpr);
    canvas.height = Math.round(view.height * dpr);
    canvas.style.width = `${view.width}px`;
    canvas.style.height = `${view.height}px`;
    this.state.room = view.height - AXIS;
    this.resized.emit(view.width);
  }

  /** Makes the scrolled area as high as the rows. */
  private fitScroll(): void {
    const { layout, view } = this.state;
    this.empty.hidden = layout.tracks.length + layout.pinned.length > 0;
    // Compact rows fill the room; others end with a margin that shows that they end.
    const margin = this.state.compact ? 0 : 24;
    const content = AXIS + layout.pinnedHeight + layout.height + margin;
    this.spacer.style.height = `${Math.max(0, content - this.chart.clientHeight)}px`;
    view.scroll = this.chart.scrollTop;
  }
}
