// Mouse and keys.
import { AXIS } from "../draw/scene";
import { clampRange, panned, timeAt, zoomed } from "../view/viewport";
import type { Arrows } from "./arrows";
import type { Help } from "./help";
import type { Navigation } from "./navigation";
import type { Rows } from "./rows";
import type { Search } from "./search";
import type { Selection } from "./selection";
import type { Stage } from "./stage";
import type { ViewState } from "./state";
import type { Tooltip } from "./tooltip";

/** What mouse and keys act on. */
export interface InputParts {
  state: ViewState;
  stage: Stage;
  navigation: Navigation;
  rows: Rows;
  selection: Selection;
  search: Search;
  arrows: Arrows;
  tooltip: Tooltip;
  help: Help;
  /** Arrow keys inside it scroll it, not the chart. */
  panel: HTMLElement;
  addNote: () => void;
  focusSearch: () => void;
  /** Whether keys are meant for this view. */
  active: () => boolean;
}

/** Pixels that the pointer may move in a click. */
const CLICK = 4;
/** Share of the width that a key press moves by. */
const STEP = 0.15;

/** Listeners stay for the page's life: a view is never taken away. */
export function bindInput(parts: InputParts): void {
  bindPointer(parts);
  bindWheel(parts);
  bindKeys(parts);
}

/** A drag from pointer down to pointer up: what it does, where it began, and the view at that time. */
interface Drag {
  what: "move" | "area" | "axis";
  x: number;
  y: number;
  t0: number;
  t1: number;
  scroll: number;
  moved: boolean;
}

/** A press that does not move is a click. What a drag does depends on where it begins: on the axis it zooms, with Shift it marks an area, else it moves. */
function bindPointer(parts: InputParts): void {
  const { state, selection, navigation, tooltip } = parts;
  const { canvas } = parts.stage;
  let drag: Drag | undefined;
  const place = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = place(event);
    const what = y < AXIS ? "axis" : event.shiftKey ? "area" : "move";
    drag = { what, x, y, t0: state.view.t0, t1: state.view.t1, scroll: state.view.scroll, moved: false };
    // The drag goes on when the pointer leaves the canvas, and its end is heard.
    canvas.setPointerCapture(event.pointerId);
    tooltip.hide();
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    // The time under the pointer also shows on the axis and in the overview.
    state.cursor = timeAt(state.view, x);
    if (!drag) {
      if (y >= AXIS) void tooltip.at(x, y, event.clientX, event.clientY);
      else tooltip.hide();
      state.redraw();
      return;
    }
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK) return;
    drag.moved = true;
    dragged(parts, drag, x, y);
  });
  // The end of a drag or a click; a cancelled one (a gesture of the system) selects nothing.
  const finish = (event: PointerEvent): void => {
    if (!drag) return;
    const done = drag;
    drag = undefined;
    canvas.style.cursor = "";
    const [x, y] = place(event);
    if (!done.moved) {
      state.rubber = undefined;
      if (event.type === "pointerup" && done.what !== "axis") void selection.selectAt(x, y);
      return;
    }
    dropped(parts, done, x, y);
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", finish);
  canvas.addEventListener("pointerleave", () => {
    state.cursor = undefined;
    tooltip.hide();
    state.redraw();
  });
  canvas.addEventListener("dblclick", (event) => {
    const [x, y] = place(event);
    void selection.selectAt(x, y).then(() => state.selected && navigation.showSelection());
  });
}

/** The pointer moved by more than a click: the view or the rubber band follows. */
function dragged({ state, stage, navigation }: InputParts, drag: Drag, x: number, y: number): void {
  const { view } = state;
  if (drag.what === "move") {
    stage.canvas.style.cursor = "grabbing";
    // Computed from where the drag began, not from the last event: so no rounding adds up.
    const by = ((drag.x - x) / view.width) * (drag.t1 - drag.t0);
    stage.chart.scrollTop = drag.scroll + drag.y - y;
    navigation.show(clampRange(drag.t0 + by, drag.t1 + by, state.recording.length));
    return;
  }
  const [t0, t1] = between(state, drag.x, x);
  const bottom = view.height;
  state.rubber =
    // A band over all rows when the axis is dragged, a rectangle otherwise.
    drag.what === "axis" ? { t0, t1, y0: AXIS, y1: bottom } : { t0, t1, y0: Math.min(drag.y, y), y1: Math.max(drag.y, y) };
  state.redraw();
}

/** The pointer was let go: what was marked becomes the view or the selection. */
function dropped({ state, navigation, selection }: InputParts, drag: Drag, x: number, y: number): void {
  if (drag.what === "move") return;
  const [t0, t1] = between(state, drag.x, x);
  if (drag.what === "axis") {
    state.rubber = undefined;
    navigation.show(clampRange(t0, t1, state.recording.length));
  } else {
    selection.selectArea(t0, t1, Math.max(AXIS, Math.min(drag.y, y)), Math.max(drag.y, y));
  }
}

/** The times at two places of the canvas, in order and inside the recording. */
function between({ view, recording }: ViewState, x0: number, x1: number): [number, number] {
  const a = timeAt(view, Math.min(x0, x1));
  const b = timeAt(view, Math.max(x0, x1));
  return [Math.max(0, a), Math.min(recording.length, b)];
}

/** The wheel scrolls the rows as it does anywhere; with Ctrl it zooms about the pointer, sideways or with Shift it pans. */
function bindWheel({ state, stage, navigation }: InputParts): void {
  stage.chart.addEventListener(
    "wheel",
    (event) => {
      const box = stage.canvas.getBoundingClientRect();
      const x = Math.max(0, event.clientX - box.left);
      // Browsers count the wheel in pixels, in lines (16 px) or in pages.
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? state.view.height : 1;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        // An exponential: turning back undoes turning forth. Limited, since some wheels report hundreds of pixels at once.
        const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * 0.004)));
        navigation.show(zoomed(state.view, factor, x, state.recording.length));
        return;
      }
      // Some systems turn Shift and wheel into sideways scrolling themselves, others leave that to the page.
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (sideways === 0) return;
      event.preventDefault();
      navigation.show(panned(state.view, sideways * unit, state.recording.length));
      if (!event.shiftKey && event.deltaY !== 0) stage.chart.scrollTop += event.deltaY * unit;
    },
    { passive: false },
  );
}

/** What a key does; it gets the parts and the event, for Shift. */
type Action = (parts: InputParts, event: KeyboardEvent) => void;

const zoom =
  (factor: number): Action =>
  ({ state, navigation }) => {
    // About the pointer, or the middle when it is not over the chart.
    const x = state.cursor === undefined ? state.view.width / 2 : state.x(state.cursor);
    navigation.show(zoomed(state.view, factor, x, state.recording.length));
  };
const pan =
  (share: number): Action =>
  ({ state, navigation }, event) =>
    navigation.show(panned(state.view, share * state.view.width * (event.shiftKey ? 4 : 1), state.recording.length));
const scroll =
  (pixels: number): Action =>
  ({ state, navigation }) =>
    navigation.scrollTo(state.view.scroll + pixels);

/** By the key in lower case; `ui/help.ts` lists them for people. */
const KEYS: Record<string, Action> = {
  w: zoom(1 / 1.35),
  s: zoom(1.35),
  "+": zoom(1 / 1.35),
  "-": zoom(1.35),
  a: pan(-STEP),
  d: pan(STEP),
  arrowleft: pan(-STEP),
  arrowright: pan(STEP),
  arrowup: scroll(-40),
  arrowdown: scroll(40),
  f: ({ navigation }) => navigation.showSelection(),
  enter: ({ navigation }) => navigation.showSelection(),
  "0": ({ navigation }) => navigation.showHome(),
  c: ({ rows, state }) => rows.setCompact(!state.compact),
  p: ({ rows, state }) => state.selected && rows.pinLine(state.selected.line),
  e: ({ arrows }) => arrows.toggle(),
  x: ({ state }) => state.toggleRunningBy("functions"),
  i: ({ state }) => state.toggleRunningBy("annotations"),
  j: ({ selection }) => void selection.selectRow(1),
  k: ({ selection }) => void selection.selectRow(-1),
  ",": ({ selection }) => void selection.selectNeighbour(-1),
  ".": ({ selection }) => void selection.selectNeighbour(1),
  "[": ({ selection }) => void selection.selectSameName(-1),
  "]": ({ selection }) => void selection.selectSameName(1),
  escape: ({ selection }) => selection.clear(),
  b: ({ addNote }) => addNote(),
  t: ({ state }) => state.setTheme(!state.theme.dark),
  "?": ({ help }) => help.open(),
  "/": ({ focusSearch }) => focusSearch(),
  n: ({ search }, event) => void search.step(event.shiftKey ? -1 : 1),
};

/** Boxes to tick and the like: of the keys they take the space bar alone. */
const TICKED = new Set(["checkbox", "button", "submit", "reset"]);

/** Whether keys are for `target` itself: text that is typed, and lists, which letters choose in. */
function keepsKeys(target: Element): boolean {
  if (target instanceof HTMLInputElement) return !TICKED.has(target.type);
  return target.closest("select, textarea, [contenteditable]") !== null;
}

/** Keys work wherever the focus is, but not while a person types or chooses in a list, in the help, or in the other view of a pair. */
function bindKeys(parts: InputParts): void {
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (keepsKeys(target) || event.altKey || event.metaKey || parts.help.isOpen || !parts.active()) return;
    // Enter on a button presses the button.
    if (event.key === "Enter" && target !== parts.stage.canvas) return;
    if (event.ctrlKey) {
      if (event.key.toLowerCase() === "f") {
        event.preventDefault();
        parts.focusSearch();
      }
      return;
    }
    if (event.key.startsWith("Arrow") && parts.panel.contains(target)) return;
    const action = KEYS[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action(parts, event);
  });
}
