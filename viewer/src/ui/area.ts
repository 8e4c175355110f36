// The totals of an area of the chart.
import { areaTotals, type AreaTotals } from "../data/details";
import { Kind, N_STATES, SLICE_KINDS, STATE_NAMES } from "../data/index";
import type { Account } from "../data/account";
import { kindOf, nameOf } from "../data/value";
import { css, stateColour } from "../draw/palette";
import { duration, instant, percent } from "../view/units";
import { accountParts, type ShowLoss } from "./account";
import { lockName, threadLabel } from "./describe";
import { h } from "./dom";
import type { Navigation } from "./navigation";
import type { Selection } from "./selection";
import type { Area, ViewState } from "./state";
import { chosenCpus } from "./subject";
import { table, type Cell, type Column } from "./table";
import { swatched, tool } from "./widgets";

/** What the details of an area use; `addNote` marks the area. */
export interface AreaParts {
  state: ViewState;
  account: Account;
  navigation: Navigation;
  selection: Selection;
  addNote: () => void;
  showLoss: ShowLoss;
}

/** The details of an area: its account, then totals of every line in it, as they are added up. */
export class AreaDetails {
  readonly box: HTMLElement;
  private readonly progress = h("progress", { max: 1, value: 0, "aria-label": "adding up" });

  constructor(
    private readonly parts: AreaParts,
    private readonly area: Area,
    private readonly cancelled: () => boolean,
  ) {
    const rows = area.tracks.length;
    this.box = h(
      "div",
      { class: "details" },
      h(
        "div",
        { class: "heading" },
        h("h2", {}, `${duration(area.t1 - area.t0)} of ${rows} row${rows === 1 ? "" : "s"}`),
        h("span", { class: "kind" }, `from ${instant(area.t0 - parts.state.origin)}`),
        this.progress,
        h("span", { class: "grow" }),
        tool("note", "write a note about it (b)", "Add note", parts.addNote),
        tool("zoom", "zoom to it (f)", "Zoom to it", () => parts.navigation.showSelection()),
      ),
    );
  }

  /** The account is there at once; totals read every unit in the area, so a bar shows how far they are. */
  async fill(): Promise<void> {
    const { area, box } = this;
    const { state, account, selection } = this.parts;
    const ids = new Set(area.tracks);
    const tracks = [...state.layout.pinned, ...state.layout.tracks].filter((track) => ids.has(track.id));
    // Tracks that were hidden or folded since the area was marked are not added up.
    const lines = tracks.flatMap((track) => track.rows.map((row) => row.line));
    const sums = await account.sums(area.t0, area.t1, chosenCpus(state), this.cancelled);
    if (sums && !this.cancelled()) box.append(...accountParts(state, selection, sums, area.t1 - area.t0, this.parts.showLoss));
    const totals = await areaTotals(state.recording, lines, area.t0, area.t1, this.cancelled, (part) => this.progress.setAttribute("value", String(part)));
    if (!totals || this.cancelled()) return;
    this.progress.remove();
    box.append(this.totals(totals, area.t1 - area.t0));
  }

  /** A table for each sort of line that the area holds; none for what is not in it. */
  private totals(totals: AreaTotals, length: number): HTMLElement {
    const { recording, colours, theme } = this.parts.state;
    const tables: HTMLElement[] = [];
    if (totals.names.size > 0) {
      const rows = [...totals.names].map(([value, row]): Cell[] => [
        swatched(css(colours.of(Kind.Slice, value)), recording.text(nameOf(value)), SLICE_KINDS[kindOf(value)]),
        row.count,
        { value: row.total, text: duration(row.total) },
        { value: row.total / row.count, text: duration(row.total / row.count) },
        { value: row.min, text: duration(row.min) },
        { value: row.max, text: duration(row.max) },
      ]);
      const columns: Column[] = ["name", "count", "total", "mean", "shortest", "longest"].map((text, i) => ({ text, number: i > 0 }));
      tables.push(table({ caption: "Slices", columns, rows, sortBy: 2 }));
    }
    if (totals.threads.size > 0) {
      // A column for each state that some thread was in.
      const used = Array.from({ length: N_STATES }, (_, s) => s).filter((s) => [...totals.threads.values()].some((row) => row[s]! > 0));
      const columns = [{ text: "thread" }, ...used.map((s) => ({ text: STATE_NAMES[s] ?? "", number: true, colour: css(stateColour(s, theme.dark)) }))];
      const rows = [...totals.threads].map(([thread, row]): Cell[] => [threadLabel(recording, thread), ...used.map((s) => ({ value: row[s]!, text: duration(row[s]!) }))]);
      tables.push(table({ caption: "Threads: time in each state", columns, rows }));
    }
    if (totals.cpus.size > 0) {
      const rows = [...totals.cpus].map(([cpu, row]): Cell[] => {
        // The three threads that had the CPU longest.
        const top = [...row.threads].sort((a, b) => b[1] - a[1]).slice(0, 3);
        return [`CPU ${cpu}`, { value: row.busy, text: percent(row.busy, length) }, top.map(([t, ns]) => `${threadLabel(recording, t)} ${percent(ns, length)}`).join(", ")];
      });
      tables.push(table({ caption: "CPUs", columns: [{ text: "CPU" }, { text: "busy", number: true }, { text: "most by" }], rows }));
    }
    if (totals.locks.size > 0) {
      const rows = [...totals.locks].map(([lock, row]): Cell[] => [lockName(recording, lock), { value: row.held, text: duration(row.held) }, { value: row.waited, text: duration(row.waited) }]);
      tables.push(table({ caption: "Locks", columns: [{ text: "lock" }, { text: "held", number: true }, { text: "waited", number: true }], rows, sortBy: 2 }));
    }
    if (tables.length === 0) return h("p", { class: "muted" }, "Nothing happened in this area.");
    return h("div", { class: "columns tables" }, ...tables);
  }
}
