// What the colours mean.
import { SliceKind, STATE_NAMES } from "../data/index";
import { css, isWait, stateColour } from "../draw/palette";
import { fill, h } from "./dom";
import type { ViewState } from "./state";
import { swatch } from "./widgets";

export function legend(state: ViewState): HTMLElement {
  const box = h("footer", { class: "legend", "aria-label": "Legend" });
  const update = (): void => fill(box, ...entries(state));
  update();
  state.themeChanged.on(update);
  return box;
}

function entries({ recording, theme: { dark } }: ViewState): (HTMLElement | false)[] {
  const used = new Set(recording.index.threads.flatMap((thread) => thread.states.flatMap((ns, state) => (ns > 0 ? [state] : []))));
  const bits = recording.index.names.reduce((all, row) => all | row.kinds, 0);
  const kinds = Object.values(SliceKind).filter((kind) => (bits & (1 << kind)) !== 0);
  return [
    ...[1, 2, 3, 4, 5, 6, 7, 8, 0].filter((state) => used.has(state)).map((state) => swatch(css(stateColour(state, dark)), STATE_NAMES[state] ?? "")),
    kinds.some((kind: number) => isWait(kind) && kind !== SliceKind.LockWait) && swatch(dark ? "#59636e" : "#b9c0c8", "wait", "hatched"),
    kinds.includes(SliceKind.LockWait) && swatch(dark ? "#a9582a" : "#e59866", "lock wait", "hatched"),
    kinds.includes(SliceKind.LockHold) && swatch(dark ? "#b5862a" : "#e8b54a", "lock held"),
    recording.index.losses.length > 0 && swatch(dark ? "#ff8a5c" : "#c4320a", "events lost", "lost"),
    h("span", { class: "grow" }),
    h("span", { class: "muted" }, "thin upper edge: several items in one pixel \u00b7 drag to move, Ctrl+wheel to zoom, ? for help"),
  ];
}
