// Which part of the recording is in view.
import { clampRange, fitted } from "../view/viewport";
import { Signal } from "./signal";
import type { ViewState } from "./state";

export class Navigation {
  /** The person moved the view; {@link Navigation.follow} does not count. */
  readonly moved = new Signal();

  /** `scroller` is the element that scrolls the rows; `home` the range that "show everything" means. */
  constructor(
    private readonly state: ViewState,
    private readonly scroller: { scrollTop: number },
    readonly home: () => [number, number],
  ) {}

  /** Shows `range`, ns on the file's axis, because the person wants it; a second view follows. */
  show(range: [number, number]): void {
    this.follow(range);
    this.moved.emit();
  }

  /** Shows `range` because another view does. */
  follow([t0, t1]: [number, number]): void {
    this.state.view.t0 = t0;
    this.state.view.t1 = t1;
    this.state.changed();
  }

  showHome(): void {
    this.show(this.home());
  }

  /** Shows `[t0, t1]` with `share` of the width, in the middle. */
  showFitted(t0: number, t1: number, share: number): void {
    this.show(fitted(t0, t1, this.state.recording.length, share));
  }

  /** Moves `t` into the middle, at the present zoom. */
  showAround(t: number): void {
    const { view, recording } = this.state;
    const half = (view.t1 - view.t0) / 2;
    this.show(clampRange(t - half, t + half, recording.length));
  }

  /** Zooms to what is selected; without a selection to everything. */
  showSelection(): void {
    const { area, selected } = this.state;
    if (area) this.showFitted(area.t0, area.t1, 0.9);
    else if (selected) this.showFitted(selected.start, selected.end, 0.7);
    else this.showHome();
  }

  scrollTo(y: number): void {
    this.scroller.scrollTop = y;
    // The element knows how far it can scroll.
    this.state.view.scroll = this.scroller.scrollTop;
    this.state.changed();
  }
}
