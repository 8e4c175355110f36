// Tables about the whole recording.
import { Kind, SLICE_KINDS, State, type NameRow, type PanelCell, type PanelRow, type PartRow, type Unit } from "../data/index";
import { encodeNamed } from "../data/value";
import { css } from "../draw/palette";
import { count, duration, percent } from "../view/units";
import { curves } from "./chart";
import { threadLabel } from "./describe";
import { h } from "./dom";
import { histogram, type HistogramParts } from "./histogram";
import type { Rows } from "./rows";
import type { Selection } from "./selection";
import type { ViewState } from "./state";
import { table, type Cell } from "./table";
import { fact, swatched } from "./widgets";

/** A row for each name and kind of slices; the longest of each is a link to it. */
function nameRows(state: ViewState, selection: Selection, names: NameRow[], showName?: (value: number) => void): HTMLElement {
  const { recording, colours } = state;
  const rows = names.map((row): Cell[] => [
    swatched(css(colours.of(Kind.Slice, encodeNamed(row.name, row.kind))), recording.text(row.name)),
    SLICE_KINDS[row.kind] ?? "",
    row.count,
    { value: row.total, text: duration(row.total) },
    { value: row.total / row.count, text: duration(row.total / row.count) },
    { value: row.max, text: duration(row.max), go: () => void selection.selectNumber(row.line, row.item) },
    ...(showName ? [{ value: "", text: "flame graph", go: () => showName(encodeNamed(row.name, row.kind)) }] : []),
  ]);
  const columns = [{ text: "name" }, { text: "kind" }, ...["count", "total", "mean", "longest"].map((text) => ({ text, number: true })), ...(showName ? [{ text: "code", help: "What ran in all slices of the name" }] : [])];
  return table({ columns, rows, sortBy: 3 });
}

/** `showName` leads to the code that ran in all slices of a name, where there are samples. */
export function namesTab(state: ViewState, selection: Selection, showName?: (value: number) => void): HTMLElement {
  return nameRows(state, selection, state.recording.index.names, showName);
}

/** What a search found: the names, and the durations of the one that is there most. */
export function foundTab(parts: HistogramParts): HTMLElement {
  const { found, recording } = parts.state;
  if (!found) return h("p", { class: "muted" }, "Nothing is searched for.");
  if (found.query.error !== undefined) return h("p", { class: "failed" }, `${found.query.text} is no regular expression: ${found.query.error}`);
  const names = recording.index.names.filter((row) => found.matches[row.name] === 1);
  if (names.length === 0) return h("p", { class: "muted" }, `No slice has a name that matches ${found.query.text}.`);
  // One histogram, of the name with most time: a search may match hundreds.
  const most = names.reduce((a, b) => (b.total > a.total ? b : a));
  return h(
    "div",
    {},
    h("div", { class: "heading" }, h("h2", {}, found.query.text), h("span", { class: "kind" }, "found")),
    h("p", { class: "muted" }, `${count(found.slices)} slices in ${count(found.names)} name${found.names === 1 ? "" : "s"}, ${duration(found.total)} in all; n and Shift+N step through them in time`),
    h("div", { class: "columns tables" }, nameRows(parts.state, parts.selection, names), h("div", { class: "side" }, names.length > 1 && h("p", { class: "muted" }, recording.text(most.name)), histogram(parts, most))),
  );
}

/** The recorded program's threads first: what else ran is a table of its own. */
export function threadsTab(state: ViewState, rows: Rows): HTMLElement {
  const { threads, processes } = state.recording.index;
  const own = (t: number): boolean => processes[threads[t]!.process]?.target === true;
  const all = threads.map((_, t) => t);
  const parts = [
    { caption: "Threads of the program", of: all.filter(own) },
    { caption: "Threads of other programs", of: all.filter((t) => !own(t)) },
  ].filter(({ of }) => of.length > 0);
  return h("div", { class: "summary" }, ...parts.map(({ caption, of }) => threadTable(state, rows, `${caption} (${count(of.length)})`, of)));
}

/** A table of `threads`, those that ran longest first; a name leads to the thread's row. */
function threadTable({ recording }: ViewState, rows: Rows, caption: string, threads: number[]): HTMLElement {
  const { index } = recording;
  const cells = threads.map((t): Cell[] => {
    const thread = index.threads[t]!;
    const process = index.processes[thread.process];
    const alive = thread.alive[1] - thread.alive[0];
    // Sum of the time in several states, ns.
    const ns = (...states: number[]): number => states.reduce((sum, s) => sum + (thread.states[s] ?? 0), 0);
    const time = (...states: number[]): Cell => ({ value: ns(...states), text: duration(ns(...states)) });
    // A thread without states (recorded without the kernel) is led to by its slices.
    const line = recording.lines.find((l) => l.owner === t && (l.kind === Kind.State || l.kind === Kind.Slice));
    const label = threadLabel(recording, t);
    return [
      { value: label, text: label, ...(line && { go: () => rows.reveal(line) }) },
      process ? `${recording.text(process.name)} (${process.pid})` : "",
      time(State.Running),
      { value: ns(State.Running) / Math.max(1, alive), text: percent(ns(State.Running), alive) },
      time(State.Woken, State.Preempted),
      time(State.Sleeping, State.Disk, State.Stopped, State.Idle),
      thread.switches,
      thread.preempted,
      thread.migrations,
    ];
  });
  const numbers = ["on CPU", "share", "ready", "blocked", "switches", "preempted", "migrations"];
  return table({ caption, columns: [{ text: "thread" }, { text: "process" }, ...numbers.map((text) => ({ text, number: true }))], rows: cells, sortBy: 2 });
}

// ---- tabs that analyses filled -----------------------------------------------------------------------------------

/** A number as its unit wants it; an en dash where it is not known. */
function inUnit(value: string | number | null, unit: Unit): string {
  if (value === null) return "\u2013";
  // Spaces before a name put it below the row above: HTML would leave them out.
  if (typeof value === "string") return value.replace(/^ +/, "\u2003");
  switch (unit) {
    case "ns":
      return duration(value);
    case "count":
      return count(value);
    case "ratio":
      return percent(value, 1);
    case "factor":
      return `${Number(value.toPrecision(3))}\u00d7`;
    case "number":
      return String(Number(value.toPrecision(4)));
    default:
      return String(value);
  }
}

function cellOf(selection: Selection, cell: PanelCell, unit: Unit): Cell {
  // A cell is a value, or a value and where it leads.
  const [value, go] = Array.isArray(cell) ? cell : [cell, undefined];
  const text = inUnit(value, unit);
  return { value: value ?? "", text, ...(go && { go: () => selection.follow(go) }) };
}

/** A part of a document; sentences with a label go into `facts`, which is there already. */
function partOf(state: ViewState, selection: Selection, part: PartRow, facts: HTMLElement): HTMLElement | false {
  if ("fact" in part) return fact(facts, ...part.fact), false;
  if ("refusal" in part) return fact(facts, part.refusal[0], h("b", {}, part.refusal[1])), false;
  if ("note" in part) return h("p", { class: "intro" }, part.note);
  if ("chart" in part) return curves(part.chart, state.theme.dark);
  if ("list" in part) return h("div", {}, part.list.caption !== "" && h("h2", { class: "sub" }, part.list.caption), ...part.list.items.map((item) => h("p", { class: "intro" }, item)));
  const { caption, columns, rows } = part.table;
  return table({
    caption,
    columns: columns.map(([text, help, unit]) => ({ text, help, number: unit !== "text" })),
    rows: rows.map((row) => row.map((cell, c) => cellOf(selection, cell, columns[c]?.[2] ?? "text"))),
  });
}

/** A tab that the writer filled: the page knows units and links, not what the numbers mean. */
export function panelTab(state: ViewState, selection: Selection, panel: PanelRow): HTMLElement {
  const facts = h("dl", { class: "facts-list sentences" });
  const parts = panel.parts.map((part) => partOf(state, selection, part, facts));
  return h("div", { class: "summary" }, facts, h("div", { class: "columns tables" }, ...parts));
}
