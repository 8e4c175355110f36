// Mouse and keys.
import { itemNumber } from "../data/query";
import { occurrence } from "../data/details";
import { AXIS } from "../draw/frame";
import { clampRange, panned, timeAt, zoomed } from "../view/viewport";
import type { App } from "./app";

/** Pixels that the pointer may move in a click. */
const CLICK = 4;
/** Share of the width that a key press moves by. */
const STEP = 0.15;

export function bindInput(app: App): void {
  bindPointer(app);
  bindWheel(app);
  bindKeys(app);
  app.shell.chart.addEventListener("scroll", () => {
    app.view.scroll = app.shell.chart.scrollTop;
    app.changed();
  });
}

interface Drag {
  what: "move" | "area" | "axis";
  x: number;
  y: number;
  t0: number;
  t1: number;
  scroll: number;
  moved: boolean;
}

function bindPointer(app: App): void {
  const { canvas } = app.shell;
  let drag: Drag | undefined;
  const place = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = place(event);
    const what = y < AXIS ? "axis" : event.shiftKey ? "area" : "move";
    drag = { what, x, y, t0: app.view.t0, t1: app.view.t1, scroll: app.view.scroll, moved: false };
    canvas.setPointerCapture(event.pointerId);
    app.tooltip.hide();
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    app.cursor = timeAt(app.view, x);
    if (!drag) {
      if (y >= AXIS) void app.tooltip.at(x, y, event.clientX, event.clientY);
      else app.tooltip.hide();
      app.redraw();
      return;
    }
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK) return;
    drag.moved = true;
    dragged(app, drag, x, y);
  });
  const finish = (event: PointerEvent): void => {
    if (!drag) return;
    const done = drag;
    drag = undefined;
    canvas.style.cursor = "";
    const [x, y] = place(event);
    if (!done.moved) {
      app.rubber = undefined;
      if (event.type === "pointerup" && done.what !== "axis") void app.selectAt(x, y);
      return;
    }
    dropped(app, done, x, y);
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", finish);
  canvas.addEventListener("pointerleave", () => {
    app.cursor = undefined;
    app.tooltip.hide();
    app.redraw();
  });
  canvas.addEventListener("dblclick", (event) => {
    const [x, y] = place(event);
    void app.selectAt(x, y).then(() => app.selected && app.fitSelection());
  });
}

function dragged(app: App, drag: Drag, x: number, y: number): void {
  const { view } = app;
  if (drag.what === "move") {
    app.shell.canvas.style.cursor = "grabbing";
    const by = ((drag.x - x) / view.width) * (drag.t1 - drag.t0);
    app.shell.chart.scrollTop = drag.scroll + drag.y - y;
    app.show(clampRange(drag.t0 + by, drag.t1 + by, app.recording.length));
    return;
  }
  const [t0, t1] = between(app, drag.x, x);
  const bottom = view.height;
  app.rubber =
    drag.what === "axis" ? { t0, t1, y0: AXIS, y1: bottom } : { t0, t1, y0: Math.min(drag.y, y), y1: Math.max(drag.y, y) };
  app.redraw();
}

function dropped(app: App, drag: Drag, x: number, y: number): void {
  if (drag.what === "move") return;
  const [t0, t1] = between(app, drag.x, x);
  if (drag.what === "axis") {
    app.rubber = undefined;
    app.show(clampRange(t0, t1, app.recording.length));
  } else {
    app.selectArea(t0, t1, Math.max(AXIS, Math.min(drag.y, y)), Math.max(drag.y, y));
  }
}

function between(app: App, x0: number, x1: number): [number, number] {
  const a = timeAt(app.view, Math.min(x0, x1));
  const b = timeAt(app.view, Math.max(x0, x1));
  return [Math.max(0, a), Math.min(app.recording.length, b)];
}

function bindWheel(app: App): void {
  app.shell.chart.addEventListener(
    "wheel",
    (event) => {
      const box = app.shell.canvas.getBoundingClientRect();
      const x = Math.max(0, event.clientX - box.left);
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? app.view.height : 1;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * 0.004)));
        app.show(zoomed(app.view, factor, x, app.recording.length));
        return;
      }
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (sideways === 0) return;
      event.preventDefault();
      app.show(panned(app.view, sideways * unit, app.recording.length));
      if (!event.shiftKey && event.deltaY !== 0) app.shell.chart.scrollTop += event.deltaY * unit;
    },
    { passive: false },
  );
}

type Action = (app: App, event: KeyboardEvent) => void;

const zoom =
  (factor: number): Action =>
  (app) => {
    const x = app.cursor === undefined ? app.view.width / 2 : app.x(app.cursor);
    app.show(zoomed(app.view, factor, x, app.recording.length));
  };
const pan =
  (share: number): Action =>
  (app, event) =>
    app.show(panned(app.view, share * app.view.width * (event.shiftKey ? 4 : 1), app.recording.length));
const scroll =
  (pixels: number): Action =>
  (app) =>
    app.scrollTo(app.view.scroll + pixels);

const neighbour =
  (by: 1 | -1): Action =>
  (app) => {
    const { selected } = app;
    if (selected) void itemNumber(app.recording, selected.line, selected.item + by).then((item) => item && app.select(item, true));
  };

const sameName =
  (by: 1 | -1): Action =>
  (app) => {
    const { selected } = app;
    if (!selected) return;
    const cancelled = (): boolean => app.selected !== selected;
    void occurrence(app.recording, selected, by, cancelled).then((item) => item && !cancelled() && app.select(item, true));
  };

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
  f: (app) => app.fitSelection(),
  "0": (app) => app.show(app.home()),
  e: (app) => app.toggleArrows(),
  j: (app) => void app.selectRow(1),
  k: (app) => void app.selectRow(-1),
  b: (app) => app.addNote(),
  enter: (app) => app.fitSelection(),
  t: (app) => app.setTheme(!app.theme.dark),
  ",": neighbour(-1),
  ".": neighbour(1),
  "[": sameName(-1),
  "]": sameName(1),
  "?": (app) => app.shell.help.showModal(),
  "/": (app) => app.shell.search.focus(),
  n: (app, event) => void app.findNext(event.shiftKey ? -1 : 1),
  escape: (app) => app.select(undefined),
};

function bindKeys(app: App): void {
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (target instanceof HTMLInputElement || event.altKey || event.metaKey || app.shell.help.open || !app.active()) return;
    if (event.key === "Enter" && target !== app.shell.canvas) return;
    if (event.ctrlKey) {
      if (event.key.toLowerCase() === "f") {
        event.preventDefault();
        app.shell.search.focus();
      }
      return;
    }
    const arrow = event.key.startsWith("Arrow");
    if (arrow && app.shell.panel.contains(target)) return;
    const action = KEYS[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action(app, event);
  });
}
