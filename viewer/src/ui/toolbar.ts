// The bar above the chart.
import type { ArrowKind } from "../data/arrow";
import { arrowColour } from "../draw/arrows";
import { duration } from "../view/units";
import type { Arrows } from "./arrows";
import { h } from "./dom";
import type { Help } from "./help";
import { menu } from "./menu";
import type { Navigation } from "./navigation";
import { programBox } from "./program";
import type { Rows } from "./rows";
import type { Search } from "./search";
import { searchBox } from "./search-box";
import type { Stage } from "./stage";
import type { RunningBy, ViewState } from "./state";
import { button } from "./widgets";

/** What the bar's controls act on. */
export interface ToolbarParts {
  state: ViewState;
  stage: Stage;
  rows: Rows;
  navigation: Navigation;
  search: Search;
  arrows: Arrows;
  help: Help;
  savePicture: (kind: "svg" | "png") => void;
}

const ARROW_TEXTS: Record<ArrowKind, string> = { wake: "who woke whom", flow: "the program's own flows", create: "tasks: created to first run", steal: "tasks: stolen or moved" };

/** `name` is the bar's for screen readers; `only`: the page shows no other recording. */
export function toolbar(parts: ToolbarParts, name: string, only: boolean): { bar: HTMLElement; search: HTMLInputElement } {
  const { state, rows, navigation, help, savePicture } = parts;
  const { index } = state.recording;
  const { bar: searchBar, input: search } = searchBox(state, parts.search, () => parts.stage.canvas.focus());
  // Two recordings of the same command are told apart by their files' names.
  const title = index.label !== "" && !only ? `${index.label}: ${index.title}` : index.title;
  const save = menu("Save what is in view as a picture", "Save", button("Save the view as SVG", "SVG picture", () => savePicture("svg")), button("Save the view as PNG", "PNG picture", () => savePicture("png")));
  const bar = h(
    "header",
    { class: "bar", "aria-label": name, role: only ? undefined : "group" },
    h("div", { class: "brand", title: index.info.recorder }, "kasuri"),
    h(only ? "h1" : "h2", { class: "title", title: index.title }, title),
    h("span", { class: "span" }, duration(index.span[1] - index.span[0])),
    h("span", { class: "grow" }),
    searchBar,
    programBox(state, () => rows.arrange()),
    filterBox(state, rows),
    compactButton(state, rows),
    ...runningByButtons(state),
    hiddenButton(state, rows),
    arrowNote(parts),
    arrowMenu(state, parts.arrows),
    save,
    button("Fit: show everything (0)", "Fit", () => navigation.showHome()),
    button("Dark or light (t)", "\u25d0", () => state.setTheme(!state.theme.dark)),
    button("Help (?)", "?", () => help.open()),
  );
  return { bar, search };
}

/** The text that rows are filtered by. Going to a hidden row clears the filter, hence the listener. */
function filterBox(state: ViewState, rows: Rows): HTMLElement {
  const filter = h("input", { type: "search", class: "filter", placeholder: "Filter rows", "aria-label": "show only rows whose name has this text", oninput: () => rows.filter(filter.value) });
  state.arranged.on(() => {
    if (filter.value !== state.choices.filter) filter.value = state.choices.filter;
  });
  return filter;
}

/** Pressed while rows are compact, also when nobody chose that. */
function compactButton(state: ViewState, rows: Rows): HTMLElement {
  const toggle = button("Compact rows: one thin row for each thread (c)", "Compact", () => rows.setCompact(!state.compact));
  const update = (): void => toggle.setAttribute("aria-pressed", String(state.compact));
  update();
  state.arranged.on(update);
  return toggle;
}

/** Pressed while running threads and the rows of CPUs show more than states and threads; what the recording lacks has no button. */
function runningByButtons(state: ViewState): HTMLElement[] {
  const toggle = (by: RunningBy, label: string, text: string): HTMLElement | false => {
    if (!state.canRunBy(by)) return false;
    const toggle = button(label, text, () => state.toggleRunningBy(by));
    const update = (): void => toggle.setAttribute("aria-pressed", String(state.runningBy === by));
    update();
    state.runningByChanged.on(update);
    return toggle;
  };
  return [
    toggle("annotations", "Annotations: the rows of CPUs have the colours of the innermost annotation, not of threads (i)", "Annotations"),
    toggle("functions", "Functions: running threads, also in the rows of CPUs, have the colours of the functions that samples found (x)", "Functions"),
  ].filter((toggle) => toggle !== false);
}

/** How many rows are hidden, and the way to have them back. */
function hiddenButton(state: ViewState, rows: Rows): HTMLElement {
  const hidden = button("Show the hidden rows again", "", () => rows.showHidden());
  const update = (): void => {
    const n = state.choices.hidden.size;
    hidden.hidden = n === 0;
    hidden.textContent = `${n} hidden`;
  };
  update();
  state.arranged.on(update);
  return hidden;
}

/** Says that arrows are missing: a kind that does not fit is left out whole. */
function arrowNote({ stage, arrows }: ToolbarParts): HTMLElement {
  const note = h("span", { class: "note", hidden: true, role: "status" }, "too many arrows: zoom in");
  stage.drawn.on(() => (note.hidden = !arrows.tooMany));
  return note;
}

/** A box to tick for each kind of arrow that the recording has. */
function arrowMenu(state: ViewState, arrows: Arrows): HTMLElement {
  const inputs = new Map<ArrowKind, HTMLInputElement>();
  const rows = arrows.possible().map((kind) => {
    const input = h("input", { type: "checkbox", onchange: () => arrows.set(kind, input.checked) });
    inputs.set(kind, input);
    const line = h("i", { "aria-hidden": "true" });
    const colour = (): void => line.style.setProperty("--c", arrowColour(kind, state.theme.dark));
    colour();
    state.themeChanged.on(colour);
    return h("label", {}, input, line, ARROW_TEXTS[kind]);
  });
  const none = rows.length === 0 ? [h("p", { class: "muted" }, "This recording has nothing to draw arrows between.")] : [];
  // The menu's boxes follow the state, and not only a click on them: the e key changes it too.
  const box = menu("Arrows for all that is in view (e); those of the selection show anyway", "Arrows", ...rows, ...none);
  state.arrowsChanged.on(() => {
    for (const [kind, input] of inputs) input.checked = state.arrowKinds.has(kind);
    box.querySelector("summary")?.classList.toggle("on", state.arrowKinds.size > 0);
  });
  return box;
}
