// The panel below the chart: what is selected, and tables about the whole recording.
import { N_STATES, Kind, SLICE_KINDS, State, STATE_NAMES } from "../data/index";
import { areaTotals, linesOf, occurrence, sliceDetails, stateDetails, type AreaTotals, type StateShare } from "../data/details";
import { itemAt, type Item } from "../data/query";
import { argumentsOf, type Argument } from "../data/columns";
import { css, stateColour } from "../draw/palette";
import { count, duration, instant, percent } from "../view/units";
import type { App, Area } from "./app";
import { itemKind, itemThread, itemTitle, ownerLabel, threadLabel } from "./describe";
import { append, fill, h } from "./dom";
import { infoTab, jsonTab } from "./facts";
import { table, type Cell, type Column } from "./table";

type Tab = "details" | "names" | "threads" | "summary" | "recording";

export class Panel {
  private readonly tabs: HTMLElement;
  private readonly body: HTMLElement;
  private tab: Tab = "details";
  private details: HTMLElement = h("div", {});
  private run = 0;
  private again: () => void = () => undefined;

  constructor(private readonly app: App) {
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Panels" });
    this.body = h("div", { class: "panel-body", role: "tabpanel", tabindex: 0 });
    app.shell.panel.append(this.tabs, this.body);
    this.drawTabs();
  }

  /** The colours changed. */
  rethemed(): void {
    this.again();
    this.open(this.tab);
  }

  private drawTabs(): void {
    const { index } = this.app.recording;
    const tabs: [Tab, string][] = [["details", "Details"]];
    if (index.names.length > 0) tabs.push(["names", "Names"]);
    if (index.threads.length > 0) tabs.push(["threads", "Threads"]);
    if (index.summary !== null) tabs.push(["summary", "Summary"]);
    tabs.push(["recording", "Recording"]);
    fill(
      this.tabs,
      ...tabs.map(([tab, text]) =>
        h("button", { type: "button", role: "tab", "data-do": `tab-${tab}`, "aria-selected": String(tab === this.tab), onclick: () => this.open(tab) }, text),
      ),
    );
  }

  open(tab: Tab): void {
    this.tab = tab;
    for (const button of this.tabs.children) {
      button.setAttribute("aria-selected", String((button as HTMLElement).dataset.do === `tab-${tab}`));
    }
    const content: Record<Tab, () => HTMLElement> = {
      details: () => this.details,
      names: () => this.namesTab(),
      threads: () => this.threadsTab(),
      summary: () => jsonTab(this.app.recording.index.summary),
      recording: () => infoTab(this.app.recording.index),
    };
    fill(this.body, content[tab]());
    this.body.scrollTop = 0;
  }

  private show(details: HTMLElement): void {
    this.details = details;
    this.open("details");
  }

  /** Where a newcomer looks first. */
  openFirst(): void {
    const { index } = this.app.recording;
    this.open(index.summary !== null ? "summary" : index.names.length > 0 ? "names" : index.threads.length > 0 ? "threads" : "details");
  }

  showNothing(): void {
    this.run++;
    this.again = () => undefined;
    this.show(
      h("div", { class: "empty" }, h("p", {}, "Nothing is selected."), h("p", { class: "muted" }, "Click an item for its details; Shift+drag over the chart for the totals of an area; press ? for all keys.")),
    );
  }

  // ---- one item ----------------------------------------------------------------------------------------------

  async showItem(item: Item): Promise<void> {
    const run = ++this.run;
    const cancelled = (): boolean => run !== this.run;
    this.again = () => void this.showItem(item);
    const facts = h("dl", { class: "facts-list" });
    const side = h("div", { class: "side" });
    const box = h("div", { class: "details" }, this.heading(item), h("div", { class: "columns" }, facts, side));
    this.common(facts, item);
    this.show(box);
    if (item.line.kind === Kind.Slice) await this.slice(facts, side, item, cancelled);
    else if (item.line.kind === Kind.State) await this.state(facts, item, cancelled);
    else if (item.line.kind === Kind.Cpu) this.occupancy(facts, item);
    else if (item.line.kind === Kind.Instant) this.args(facts, argumentsOf(item.unit, item.i));
  }

  private heading(item: Item): HTMLElement {
    const { app } = this;
    const rgb = item.line.kind === Kind.Counter ? 0x888888 : app.colours.of(item.line.kind, item.value);
    const step = (direction: 1 | -1): void => {
      const cancelled = (): boolean => app.selected !== item;
      void occurrence(app.recording, item, direction, cancelled).then((found) => {
        if (found && !cancelled()) app.select(found, true);
      });
    };
    return h(
      "div",
      { class: "heading" },
      h("i", { class: "colour", style: `--c:${css(rgb)}` }),
      h("h2", {}, itemTitle(app.recording, item)),
      h("span", { class: "kind" }, itemKind(app.recording, item)),
      h("span", { class: "grow" }),
      h("button", { type: "button", class: "tool", title: "previous with this name in this row ([)", "data-do": "previous", onclick: () => step(-1) }, "\u2039 previous"),
      h("button", { type: "button", class: "tool", title: "next with this name in this row (])", "data-do": "next", onclick: () => step(1) }, "next \u203a"),
      h("button", { type: "button", class: "tool", title: "zoom to it (f)", "data-do": "zoom", onclick: () => app.fitSelection() }, "Zoom to it"),
    );
  }

  private common(facts: HTMLElement, item: Item): void {
    const { recording } = this.app;
    const { index } = recording;
    const name = item.line.kind === Kind.Slice || item.line.kind === Kind.Instant ? item.value >> 4 : -1;
    const place = index.places[String(name)];
    if (place) fact(facts, "Place", place);
    fact(facts, "Start", instant(item.start - index.span[0]));
    if (item.line.kind !== Kind.Instant && item.line.kind !== Kind.Counter) fact(facts, "Duration", duration(item.end - item.start));
    const thread = itemThread(item);
    if (thread >= 0) {
      const process = index.processes[index.threads[thread]?.process ?? -1];
      fact(facts, "Thread", this.threadLink(thread, item.start));
      if (process) fact(facts, "Process", `${recording.text(process.name)} (${process.pid})`);
    } else {
      fact(facts, "Row", ownerLabel(recording, item.line));
    }
  }

  /** A thread's name that leads to what it did at `t`. */
  private threadLink(thread: number, t: number): HTMLElement | string {
    const { app } = this;
    const label = threadLabel(app.recording, thread);
    const [states] = linesOf(app.recording, Kind.State, thread);
    if (!states) return label;
    const go = (): void => void itemAt(app.recording, states, t).then((item) => item && app.select(item, true));
    return h("button", { type: "button", class: "link", onclick: go }, label);
  }

  private async slice(facts: HTMLElement, side: HTMLElement, item: Item, cancelled: () => boolean): Promise<void> {
    const { app } = this;
    const { recording } = app;
    const found = await sliceDetails(recording, item, cancelled);
    if (cancelled()) return;
    fact(facts, "Self time", `${duration(found.self)} (${percent(found.self, item.end - item.start)})`);
    if (found.object > 0) fact(facts, "Object", recording.index.objects[found.object - 1] ?? "?");
    if (found.task > 0) fact(facts, "Task", `#${found.task - 1}`);
    if (found.open & 1) fact(facts, "Note", "its beginning was not seen");
    if (found.open & 2) fact(facts, "Note", "its end was not seen");
    this.args(facts, found.args);
    if (found.enclosing.length > 0) {
      const path = found.enclosing.flatMap((above, i) => [
        ...(i > 0 ? [" \u203a "] : []),
        h("button", { type: "button", class: "link", onclick: () => app.select(above, true) }, itemTitle(recording, above)),
      ]);
      fact(facts, "Inside", h("span", {}, ...path));
    }
    const row = recording.index.names.find((row) => row.name === item.value >> 4);
    if (row) {
      const longest = h("button", { type: "button", class: "link", onclick: () => void app.selectNumber(row.line, row.item) }, duration(row.max));
      fact(facts, "All of this name", h("span", {}, `${count(row.count)}, mean ${duration(row.total / row.count)}, longest `, longest));
    }
    if (found.share) side.append(this.shares(found.share, item.end - item.start));
  }

  private shares(share: StateShare, length: number): HTMLElement {
    const { dark } = this.app.theme;
    const states = share.states.map((ns, state) => ({ ns, state })).filter(({ ns }) => ns > 0).sort((a, b) => b.ns - a.ns);
    const bar = h("div", { class: "share-bar", role: "img", "aria-label": states.map(({ ns, state }) => `${STATE_NAMES[state]} ${percent(ns, length)}`).join(", ") });
    append(bar, states.map(({ ns, state }) => h("i", { style: `width:${(100 * ns) / length}%;--c:${css(stateColour(state, dark))}` })));
    const rows = states.map(({ ns, state }) => [swatched(css(stateColour(state, dark)), STATE_NAMES[state] ?? ""), duration(ns), percent(ns, length)]);
    const cpus = [...share.cpus].sort((a, b) => b[1] - a[1]).map(([cpu, ns]) => `CPU ${cpu} ${duration(ns)}`);
    return h(
      "div",
      {},
      h("h3", {}, "What the scheduler did meanwhile"),
      bar,
      table({ columns: [{ text: "state" }, { text: "time", number: true }, { text: "share", number: true }], rows }),
      cpus.length > 0 && h("p", { class: "muted" }, `ran on ${cpus.slice(0, 6).join(", ")}${cpus.length > 6 ? ", ..." : ""}; preempted ${share.preempted}\u00d7, moved ${share.migrated}\u00d7`),
    );
  }

  private async state(facts: HTMLElement, item: Item, cancelled: () => boolean): Promise<void> {
    const { app } = this;
    const found = await stateDetails(app.recording, item);
    if (cancelled()) return;
    if (found.cpu >= 0) fact(facts, item.value === State.Running ? "CPU" : item.value === State.Woken || item.value === State.Preempted ? "Queue of CPU" : "Last CPU", String(found.cpu));
    const by = found.by >= 0 ? this.threadLink(found.by, item.start) : "an interrupt, or not known";
    if (item.value === State.Woken) fact(facts, "Woken by", by);
    if (item.value === State.Preempted) fact(facts, "Preempted by", found.by >= 0 ? by : "not known");
    for (const [label, other] of [["Before", found.previous], ["After", found.next]] as const) {
      if (!other) continue;
      fact(facts, label, h("button", { type: "button", class: "link", onclick: () => app.select(other, true) }, `${itemTitle(app.recording, other)}, ${duration(other.end - other.start)}`));
    }
  }

  private args(facts: HTMLElement, args: Argument[]): void {
    for (const arg of args) fact(facts, this.app.recording.text(arg.name), argumentText(this.app, arg));
  }

  private occupancy(facts: HTMLElement, item: Item): void {
    fact(facts, "CPU", String(item.line.owner));
  }

  // ---- an area -----------------------------------------------------------------------------------------------

  async showArea(area: Area): Promise<void> {
    const run = ++this.run;
    const cancelled = (): boolean => run !== this.run;
    this.again = () => void this.showArea(area);
    const { app } = this;
    const progress = h("progress", { max: 1, value: 0, "aria-label": "adding up" });
    const { index } = app.recording;
    const heading = h(
      "div",
      { class: "heading" },
      h("h2", {}, `${duration(area.t1 - area.t0)} of ${area.tracks.length} row${area.tracks.length === 1 ? "" : "s"}`),
      h("span", { class: "kind" }, `from ${instant(area.t0 - index.span[0])}`),
      progress,
      h("span", { class: "grow" }),
      h("button", { type: "button", class: "tool", "data-do": "zoom", onclick: () => app.fitSelection() }, "Zoom to it"),
    );
    const box = h("div", { class: "details" }, heading);
    this.show(box);
    const ids = new Set(area.tracks);
    const tracks = [...app.layout.pinned, ...app.layout.tracks].filter((track) => ids.has(track.id));
    const lines = tracks.flatMap((track) => track.rows.map((row) => row.line));
    const totals = await areaTotals(app.recording, lines, area.t0, area.t1, cancelled, (part) => progress.setAttribute("value", String(part)));
    if (!totals || cancelled()) return;
    progress.remove();
    box.append(this.totals(totals, area.t1 - area.t0));
  }

  private totals(totals: AreaTotals, length: number): HTMLElement {
    const { recording, colours, theme } = this.app;
    const tables: HTMLElement[] = [];
    if (totals.names.size > 0) {
      const rows = [...totals.names].map(([value, row]): Cell[] => [
        swatched(css(colours.of(Kind.Slice, value)), recording.text(value >> 4), SLICE_KINDS[value & 15]),
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
      const used = Array.from({ length: N_STATES }, (_, s) => s).filter((s) => [...totals.threads.values()].some((row) => row[s]! > 0));
      const columns = [{ text: "thread" }, ...used.map((s) => ({ text: STATE_NAMES[s] ?? "", number: true, colour: css(stateColour(s, theme.dark)) }))];
      const rows = [...totals.threads].map(([thread, row]): Cell[] => [threadLabel(recording, thread), ...used.map((s) => ({ value: row[s]!, text: duration(row[s]!) }))]);
      tables.push(table({ caption: "Threads: time in each state", columns, rows }));
    }
    if (totals.cpus.size > 0) {
      const rows = [...totals.cpus].map(([cpu, row]): Cell[] => {
        const top = [...row.threads].sort((a, b) => b[1] - a[1]).slice(0, 3);
        return [`CPU ${cpu}`, { value: row.busy, text: percent(row.busy, length) }, top.map(([t, ns]) => `${threadLabel(recording, t)} ${percent(ns, length)}`).join(", ")];
      });
      tables.push(table({ caption: "CPUs", columns: [{ text: "CPU" }, { text: "busy", number: true }, { text: "most by" }], rows }));
    }
    if (tables.length === 0) return h("p", { class: "muted" }, "Nothing happened in this area.");
    return h("div", { class: "columns tables" }, ...tables);
  }

  // ---- the whole recording -----------------------------------------------------------------------------------

  private namesTab(): HTMLElement {
    const { app } = this;
    const { recording, colours } = app;
    const rows = recording.index.names.map((row): Cell[] => [
      swatched(css(colours.of(Kind.Slice, (row.name << 4) | row.kind)), recording.text(row.name)),
      SLICE_KINDS[row.kind] ?? "",
      row.count,
      { value: row.total, text: duration(row.total) },
      { value: row.total / row.count, text: duration(row.total / row.count) },
      { value: row.max, text: duration(row.max), go: () => void app.selectNumber(row.line, row.item) },
    ]);
    const columns = [{ text: "name" }, { text: "kind" }, ...["count", "total", "mean", "longest"].map((text) => ({ text, number: true }))];
    return table({ columns, rows, sortBy: 3 });
  }

  private threadsTab(): HTMLElement {
    const { app } = this;
    const { index } = app.recording;
    const rows = index.threads.map((thread, t): Cell[] => {
      const process = index.processes[thread.process];
      const alive = thread.alive[1] - thread.alive[0];
      const ns = (...states: number[]): number => states.reduce((sum, s) => sum + (thread.states[s] ?? 0), 0);
      const time = (...states: number[]): Cell => ({ value: ns(...states), text: duration(ns(...states)) });
      const process_ = process ? `${app.recording.text(process.name)} (${process.pid})` : "";
      const line = app.recording.lines.find((l) => l.owner === t && (l.kind === Kind.State || l.kind === Kind.Slice));
      const name: Cell = { value: threadLabel(app.recording, t), text: threadLabel(app.recording, t), ...(line && { go: () => app.reveal(line) }) };
      return [
        name,
        process_,
        time(State.Running),
        { value: ns(State.Running) / Math.max(1, alive), text: percent(ns(State.Running), alive) },
        time(State.Woken, State.Preempted),
        time(State.Sleeping, State.Disk, State.Stopped, State.Idle),
        thread.switches,
        thread.preempted,
        thread.migrations,
      ];
    });
    const numbers = ["on CPU", "share", "runnable", "blocked", "switches", "preempted", "migrations"];
    return table({ columns: [{ text: "thread" }, { text: "process" }, ...numbers.map((text) => ({ text, number: true }))], rows, sortBy: 2 });
  }
}

function fact(list: HTMLElement, name: string, value: HTMLElement | string): void {
  list.append(h("dt", {}, name), h("dd", {}, value));
}

function swatched(colour: string, text: string, note?: string): Cell {
  const node = h("span", { class: "swatch" }, h("i", { style: `--c:${colour}` }), text, note !== undefined && note !== "work" && h("span", { class: "muted" }, ` ${note}`));
  return { value: text, text, node };
}

function argumentText(app: App, { value }: Argument): string {
  return typeof value === "object" ? app.recording.text(value.text) : String(value);
}
