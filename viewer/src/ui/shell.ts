// The page around the chart: bars, search, legend, help.
import type { ArrowKind } from "../data/arrow";
import { SliceKind, STATE_NAMES, type LossRow } from "../data/index";
import type { Found } from "../data/search";
import { css, isWait, stateColour } from "../draw/palette";
import { count, duration } from "../view/units";
import type { App } from "./app";
import { append, fill, h } from "./dom";
import { helpDialog } from "./help";

export interface Shell {
  chart: HTMLElement;
  stage: HTMLElement;
  spacer: HTMLElement;
  headers: HTMLElement;
  canvas: HTMLCanvasElement;
  panel: HTMLElement;
  search: HTMLInputElement;
  filter: HTMLInputElement;
  arrowNote: HTMLElement;
  empty: HTMLElement;
  help: HTMLDialogElement;
  /** Tells a screen reader what happened. */
  say: (text: string) => void;
  setArrows: (kinds: Set<ArrowKind>) => void;
  setFound: (found: Found | undefined) => void;
  setSearching: (on: boolean) => void;
  setHidden: (n: number) => void;
  setLegend: (dark: boolean) => void;
}

function button(label: string, text: string, onclick: () => void, pressed?: boolean): HTMLButtonElement {
  const attributes = { type: "button", class: "tool", title: label, "aria-label": label, onclick };
  return h("button", pressed === undefined ? attributes : { ...attributes, "aria-pressed": String(pressed) }, text);
}

/** A button that opens a box of things below it. */
function menu(label: string, text: string, ...children: HTMLElement[]): HTMLDetailsElement {
  const box = h("details", { class: "menu" }, h("summary", { class: "tool", title: label }, text), h("div", { class: "menu-box" }, ...children));
  // Closes as menus do: by Escape, and by a click elsewhere.
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    box.open = false;
    box.querySelector("summary")?.focus();
    event.stopPropagation();
  });
  box.addEventListener("click", (event) => {
    if ((event.target as Element).closest("button")) box.open = false;
  });
  document.addEventListener("pointerdown", (event) => {
    if (!box.contains(event.target as Node)) box.open = false;
  });
  return box;
}

const ARROW_TEXTS: Record<ArrowKind, string> = { wake: "who woke whom", flow: "the program's own flows", create: "tasks: created to first run", steal: "tasks: stolen or moved" };

function arrowMenu(app: App): { menu: HTMLElement; setArrows: (kinds: Set<ArrowKind>) => void } {
  const inputs = new Map<ArrowKind, HTMLInputElement>();
  const rows = app.possibleArrows().map((kind) => {
    const input = h("input", { type: "checkbox", onchange: () => app.setArrows(kind, input.checked) });
    inputs.set(kind, input);
    return h("label", {}, input, h("i", { class: `arrow-${kind}`, "aria-hidden": "true" }), ARROW_TEXTS[kind]);
  });
  const none = rows.length === 0 ? [h("p", { class: "muted" }, "This recording has nothing to draw arrows between.")] : [];
  const box = menu("Arrows for all that is in view (e); those of the selection show anyway", "Arrows", ...rows, ...none);
  const setArrows = (kinds: Set<ArrowKind>): void => {
    for (const [kind, input] of inputs) input.checked = kinds.has(kind);
    box.querySelector("summary")?.classList.toggle("on", kinds.size > 0);
  };
  return { menu: box, setArrows };
}

export function buildShell(app: App, root: HTMLElement, panelHost: HTMLElement): Shell {
  const { index } = app.recording;
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": "Gantt chart: j and k select items, arrow keys move, question mark lists all keys", class: "canvas" });
  const headers = h("div", { class: "headers" });
  const stage = h("div", { class: "stage" }, headers, canvas);
  const spacer = h("div", { class: "spacer" });
  const chart = h(app.slot === "" ? "main" : "section", { class: "chart", "aria-label": app.named("Chart") }, stage, spacer);
  const empty = h("p", { class: "empty-chart", hidden: true }, "No row has this name, or all are hidden.");
  stage.append(empty);
  const panel = h("section", { class: "panel", "aria-label": app.named("Details") });
  const help = helpDialog();
  const { menu: arrows, setArrows } = arrowMenu(app);
  const save = menu("Save what is in view as a picture", "Save", button("Save the view as SVG", "SVG picture", () => app.savePicture("svg")), button("Save the view as PNG", "PNG picture", () => app.savePicture("png")));
  const live = h("div", { class: "for-readers", role: "status", "aria-live": "polite" });
  const arrowNote = h("span", { class: "note", hidden: true, role: "status" }, "too many arrows: zoom in");
  const hidden = button("Show the hidden rows again", "", () => app.unhideAll());
  hidden.hidden = true;
  const { bar: searchBar, input: search, setFound, setSearching } = searchBox(app);
  const filter = h("input", { type: "search", class: "filter", placeholder: "Filter rows", "aria-label": "show only rows whose name has this text", oninput: () => app.setFilter(filter.value) });
  const legend = h("footer", { class: "legend", "aria-label": "Legend" });
  const toolbar = h(
    "header",
    { class: "bar", "aria-label": app.named("Recording"), role: panelHost === root ? undefined : "group" },
    h("div", { class: "brand", title: index.info.recorder }, "kasuri"),
    h(panelHost === root ? "h1" : "h2", { class: "title", title: index.title }, index.label !== "" && panelHost !== root ? `${index.label}: ${index.title}` : index.title),
    h("span", { class: "span" }, duration(index.span[1] - index.span[0])),
    h("span", { class: "grow" }),
    searchBar,
    filter,
    hidden,
    arrowNote,
    arrows,
    save,
    button("Fit: show everything (0)", "Fit", () => app.show(app.home())),
    button("Dark or light (t)", "\u25d0", () => app.setTheme(!app.theme.dark)),
    button("Help (?)", "?", () => help.showModal()),
  );
  const grip = h("div", { class: "grip", role: "separator", "aria-orientation": "horizontal", "aria-valuemax": 2000, "aria-label": "height of the details, arrow keys change it", "aria-valuemin": 36, "aria-valuenow": 232, tabindex: 0 });
  bindGrip(grip, panel);
  fill(root, toolbar, banners(app), app.minimap.element, chart, live, help);
  panel.append(grip);
  append(panelHost, [panel]);
  append(root, [panelHost === root && legend]);
  return {
    chart,
    stage,
    spacer,
    headers,
    canvas,
    panel,
    search,
    filter,
    arrowNote,
    empty,
    say: (text) => {
      live.textContent = text;
    },
    setArrows,
    help,
    setFound,
    setSearching,
    setHidden: (n) => {
      hidden.hidden = n === 0;
      hidden.textContent = `${n} hidden`;
    },
    setLegend: (dark) => setLegend(legend, app, dark),
  };
}

function searchBox(app: App) {
  const status = h("span", { class: "found", role: "status", "aria-live": "polite" });
  const input = h("input", {
    type: "search",
    class: "search",
    placeholder: "Search names or /regex/",
    "aria-label": "search for slices by name",
    oninput: () => app.setSearch(input.value),
    onkeydown: (event: KeyboardEvent) => {
      if (event.key === "Enter") {
        event.preventDefault();
        void app.findNext(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        input.value = "";
        app.setSearch("");
        app.shell.canvas.focus();
      }
    },
  });
  const previous = button("Previous match (Shift+N)", "\u2039", () => void app.findNext(-1));
  const next = button("Next match (n)", "\u203a", () => void app.findNext(1));
  const steps = h("span", { class: "steps", hidden: true }, status, previous, next);
  const setFound = (found: Found | undefined): void => {
    steps.hidden = !found;
    input.classList.toggle("wrong", found?.query.error !== undefined);
    if (!found) return;
    const none = found.slices === 0;
    status.textContent = found.query.error ?? (none ? "no match" : `${count(found.slices)} in ${count(found.names)} name${found.names === 1 ? "" : "s"}`);
    previous.disabled = next.disabled = found.query.error !== undefined;
  };
  const setSearching = (on: boolean): void => {
    input.classList.toggle("busy", on);
  };
  return { bar: h("div", { class: "search-bar", role: "search" }, input, steps), input, setFound, setSearching };
}

function banners(app: App): HTMLElement {
  const { losses, info } = app.recording.index;
  const box = h("section", { class: "banners", "aria-label": app.named("What is missing") });
  const banner = (kind: string, ...children: (Node | string)[]): void => {
    const close = button("Close this note", "\u2715", () => note.remove());
    const note = h("div", { class: `banner ${kind}`, role: "note" }, h("div", { class: "text" }, ...children), close);
    box.append(note);
  };
  if (losses.length > 0) {
    const known = losses.reduce((sum, loss) => sum + loss.count, 0);
    const list = h("details", {}, h("summary", {}, `${known > 0 ? count(known) : "Some"} events were lost; the hatched parts of the chart are incomplete`));
    append(list, [h("ul", {}, ...losses.slice(0, 50).map((loss) => lossItem(app, loss)))]);
    if (losses.length > 50) list.append(`and ${losses.length - 50} more`);
    banner("lost", list);
  }
  if (info.missing.length > 0) {
    const [first, ...more] = info.missing;
    if (more.length === 0) banner("missing", `Not in this recording: ${first ?? ""}`);
    else banner("missing", h("details", {}, h("summary", {}, `${info.missing.length} things are not in this recording`), h("ul", {}, ...info.missing.map((text) => h("li", {}, text)))));
  }
  return box;
}

function lossItem(app: App, loss: LossRow): HTMLElement {
  const thread = app.recording.index.threads[loss.thread];
  const where = loss.cpu >= 0 ? `CPU ${loss.cpu}` : thread ? `thread ${thread.tid}` : "all CPUs";
  const what = `${loss.count > 0 ? count(loss.count) : "an unknown number of"} events, ${loss.cause}, ${where}`;
  const go = h("button", { type: "button", class: "link", onclick: () => app.show([loss.from - (loss.to - loss.from), loss.to + (loss.to - loss.from)]) }, "show");
  return h("li", {}, `${what}${loss.remedy === "" ? "" : `; remedy: ${loss.remedy}`} `, loss.to > loss.from && go);
}

function setLegend(legend: HTMLElement, app: App, dark: boolean): void {
  const used = new Set(app.recording.index.threads.flatMap((thread) => thread.states.flatMap((ns, state) => (ns > 0 ? [state] : []))));
  const bits = app.recording.index.names.reduce((all, row) => all | row.kinds, 0);
  const kinds = Object.values(SliceKind).filter((kind) => (bits & (1 << kind)) !== 0);
  const swatch = (colour: string, text: string, extra = ""): HTMLElement => h("span", { class: "swatch" }, h("i", { class: extra, style: `--c:${colour}` }), text);
  fill(
    legend,
    ...[1, 2, 3, 4, 5, 6, 7, 8, 0].filter((state) => used.has(state)).map((state) => swatch(css(stateColour(state, dark)), STATE_NAMES[state] ?? "")),
    kinds.some((kind: number) => isWait(kind) && kind !== SliceKind.LockWait) && swatch(dark ? "#59636e" : "#b9c0c8", "wait", "hatched"),
    kinds.includes(SliceKind.LockWait) && swatch(dark ? "#a9582a" : "#e59866", "lock wait", "hatched"),
    kinds.includes(SliceKind.LockHold) && swatch(dark ? "#b5862a" : "#e8b54a", "lock held"),
    app.recording.index.losses.length > 0 && swatch(dark ? "#ff8a5c" : "#c4320a", "events lost", "lost"),
    h("span", { class: "grow" }),
    h("span", { class: "muted" }, "thin upper edge: several items in one pixel \u00b7 drag to move, Ctrl+wheel to zoom, ? for help"),
  );
}

function bindGrip(grip: HTMLElement, panel: HTMLElement): void {
  const set = (height: number): void => {
    const fitting = Math.round(Math.max(36, Math.min(height, window.innerHeight * 0.75)));
    panel.style.height = `${fitting}px`;
    grip.setAttribute("aria-valuenow", String(fitting));
  };
  grip.addEventListener("pointerdown", (event) => {
    const from = panel.offsetHeight + event.clientY;
    grip.setPointerCapture(event.pointerId);
    const move = (e: PointerEvent): void => set(from - e.clientY);
    grip.addEventListener("pointermove", move);
    grip.addEventListener("pointerup", () => grip.removeEventListener("pointermove", move), { once: true });
  });
  grip.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    event.stopPropagation();
    set(panel.offsetHeight + (event.key === "ArrowUp" ? 24 : -24));
  });
}
