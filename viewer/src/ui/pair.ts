// Two recordings one above the other, on time axes that are aligned: what is at the same place of the screen happened
// at the same time after the point that the person chose.
import type { NameRow } from "../data/index";
import { Kind } from "../data/index";
import type { Recording } from "../data/recording";
import { next } from "../data/search";
import { css } from "../draw/palette";
import { count, duration } from "../view/units";
import { Address } from "./address";
import { App } from "./app";
import { fill, h } from "./dom";
import { swatched } from "./item";
import { table, type Cell } from "./table";

/** Names offered as points to align at. */
const MOST_NAMES = 30;

export class Pair {
  readonly first: App;
  readonly second: App;
  private current: App;
  private following = false;
  private readonly anchors: [number, number];

  constructor(recordings: [Recording, Recording], root: HTMLElement) {
    const panes = [h("div", { class: "pane" }), h("div", { class: "pane" })] as const;
    const panels = [h("div", { class: "pane-panel" }), h("div", { class: "pane-panel" })] as const;
    const bar = h("header", { class: "pair-bar" });
    fill(root, bar, h("div", { class: "panes" }, ...panes), ...panels);
    root.classList.add("pair");
    const address = new Address();
    this.first = new App(recordings[0], panes[0], address, "", panels[0]);
    this.second = new App(recordings[1], panes[1], address, "b", panels[1]);
    this.current = this.first;
    this.anchors = [starts(this.first), starts(this.second)];
    [this.first.origin, this.second.origin] = this.anchors;
    const apps = [this.first, this.second] as const;
    apps.forEach((app, i) => {
      app.active = () => this.current === app;
      app.onmove = () => this.moved(app);
      app.extraTabs = () => [{ id: "compare", text: "Compare", content: () => this.table() }];
      app.home = () => this.home(app);
      for (const host of [panes[i]!, panels[i]!]) {
        for (const event of ["pointerdown", "focusin", "wheel"]) host.addEventListener(event, () => this.activate(app), { capture: true, passive: true });
      }
      panels[i]!.addEventListener("click", () => this.activate(app));
    });
    this.activate(this.first);
    fill(bar, ...this.controls());
    // One theme and one search for both.
    const setTheme = this.first.setTheme.bind(this.first);
    const setSearch = this.first.setSearch.bind(this.first);
    this.first.setTheme = (dark) => {
      setTheme(dark);
      this.second.setTheme(dark);
    };
    this.first.setSearch = (text) => {
      setSearch(text);
      this.second.shell.search.value = text;
      this.second.setSearch(text);
    };
    if (location.hash.length < 3) this.first.show(this.first.home());
    else this.moved(this.first);
    for (const app of apps) app.panel.open("compare");
  }

  private activate(app: App): void {
    this.current = app;
    for (const [other, host] of [[this.first, 0], [this.second, 1]] as const) {
      other.root.classList.toggle("active", other === app);
      document.querySelectorAll(".pane-panel")[host]?.classList.toggle("active", other === app);
    }
  }

  private label(app: App): string {
    return app.recording.index.label || app.recording.index.title;
  }

  /** Both programs' whole lives, on aligned axes. */
  private home(app: App): [number, number] {
    const lives = [this.first, this.second].map((a, i) => App.prototype.home.call(a).map((t) => t - this.anchors[i]!) as [number, number]);
    const t0 = Math.min(lives[0]![0], lives[1]![0]);
    const t1 = Math.max(lives[0]![1], lives[1]![1]);
    const anchor = this.anchors[app === this.first ? 0 : 1];
    return [t0 + anchor, t1 + anchor];
  }

  /** The other chart follows. */
  private moved(app: App): void {
    if (this.following) return;
    this.following = true;
    const other = app === this.first ? this.second : this.first;
    const by = app === this.first ? this.anchors[1] - this.anchors[0] : this.anchors[0] - this.anchors[1];
    other.follow([app.view.t0 + by, app.view.t1 + by]);
    this.following = false;
  }

  private controls(): HTMLElement[] {
    const names = this.common().slice(0, MOST_NAMES);
    const select = h(
      "select",
      { id: "align", onchange: () => this.align(select.value) },
      h("option", { value: "start" }, "the program's start"),
      h("option", { value: "selection" }, "the selected items"),
      ...names.map(([a]) => h("option", { value: `name:${a.name}` }, `the first ${this.first.recording.text(a.name)}`)),
    );
    return [
      h("span", { class: "brand" }, "kasuri"),
      h("h1", { class: "pair-title" }, this.label(this.first), h("span", { class: "muted" }, " above "), this.label(this.second)),
      h("span", { class: "grow" }),
      h("label", { for: "align" }, "aligned at"),
      select,
    ];
  }

  private align(at: string): void {
    const apps = [this.first, this.second];
    if (at === "start") apps.forEach((app, i) => (this.anchors[i] = starts(app)));
    else if (at === "selection") {
      if (!this.first.selected || !this.second.selected) {
        this.first.shell.say("select an item in each chart first");
        return;
      }
      apps.forEach((app, i) => (this.anchors[i] = app.selected!.start));
    } else {
      const name = this.first.recording.text(Number(at.slice(5)));
      void Promise.all(apps.map((app) => firstOf(app, name))).then((times) => {
        times.forEach((t, i) => (this.anchors[i] = t ?? this.anchors[i]!));
        this.aligned();
      });
      return;
    }
    this.aligned();
  }

  private aligned(): void {
    [this.first.origin, this.second.origin] = this.anchors;
    this.moved(this.current);
    this.first.redraw();
    this.second.redraw();
  }

  /** Names that both have, those with most time first. */
  private common(): [NameRow, NameRow][] {
    const [a, b] = [this.first.recording, this.second.recording];
    const of = new Map(b.index.names.map((row) => [b.text(row.name), row]));
    return a.index.names
      .flatMap((row): [NameRow, NameRow][] => {
        const other = of.get(a.text(row.name));
        return other ? [[row, other]] : [];
      })
      .sort((x, y) => Math.max(y[0].total, y[1].total) - Math.max(x[0].total, x[1].total));
  }

  /** What changed from the first to the second. */
  private table(): HTMLElement {
    const { first, second } = this;
    const [a, b] = [first.recording, second.recording];
    const [la, lb] = [this.label(first), this.label(second)];
    const seen = new Set(this.common().map(([row]) => a.text(row.name)));
    const only = (app: App, recording: Recording): [string, NameRow, App][] => recording.index.names.filter((row) => !seen.has(recording.text(row.name))).map((row) => [recording.text(row.name), row, app]);
    const time = (app: App, row: NameRow | undefined, ns: number): Cell => (row ? { value: ns, text: duration(ns), go: () => void app.selectNumber(row.line, row.item) } : { value: -1, text: "\u2013" });
    const row = (name: string, x: NameRow | undefined, y: NameRow | undefined): Cell[] => {
      const [owner, own] = x ? [first, x] : [second, y!];
      const change = x && y ? y.total / Math.max(1, x.total) : 0;
      return [
        swatched(css(owner.colours.of(Kind.Slice, (own.name << 4) | own.kind)), name),
        { value: x?.count ?? 0, text: count(x?.count ?? 0) },
        { value: y?.count ?? 0, text: count(y?.count ?? 0) },
        time(first, x, x?.total ?? 0),
        time(second, y, y?.total ?? 0),
        { value: change, text: x && y ? `${change.toFixed(2)}\u00d7` : x ? "gone" : "new" },
        time(first, x, x ? x.total / x.count : 0),
        time(second, y, y ? y.total / y.count : 0),
        time(first, x, x?.max ?? 0),
        time(second, y, y?.max ?? 0),
      ];
    };
    const rows = [
      ...this.common().map(([x, y]) => row(a.text(x.name), x, y)),
      ...only(first, a).map(([name, x]) => row(name, x, undefined)),
      ...only(second, b).map(([name, y]) => row(name, undefined, y)),
    ];
    const columns = [{ text: "name" }, ...["count A", "count B", "total A", "total B", "B / A", "mean A", "mean B", "longest A", "longest B"].map((text) => ({ text, number: true }))];
    const [wa, wb] = [length(first), length(second)];
    return h(
      "div",
      {},
      h("p", {}, h("strong", {}, `A ${la}`), ` ${duration(wa)}, `, h("strong", {}, `B ${lb}`), ` ${duration(wb)}: B took `, h("strong", {}, `${(wb / Math.max(1, wa)).toFixed(2)}\u00d7`), " as long. A time leads to the longest slice of that name in its chart."),
      table({ columns, rows, sortBy: 3 }),
    );
  }
}

/** When the recorded program began. */
function starts(app: App): number {
  const { index } = app.recording;
  const alive = index.threads.filter((thread) => index.processes[thread.process]?.target && thread.alive[1] > thread.alive[0]).map((thread) => thread.alive[0]);
  return alive.length > 0 ? Math.min(...alive) : index.span[0];
}

function length(app: App): number {
  const { index } = app.recording;
  const alive = index.threads.filter((thread) => index.processes[thread.process]?.target && thread.alive[1] > thread.alive[0]);
  return alive.length > 0 ? Math.max(...alive.map((thread) => thread.alive[1])) - starts(app) : index.span[1] - index.span[0];
}

/** When the first slice of `name` begins. */
async function firstOf(app: App, name: string): Promise<number | undefined> {
  const { recording } = app;
  const row = recording.index.names.find((row) => recording.text(row.name) === name);
  if (!row) return undefined;
  const item = await next(recording, (value) => value >> 4 === row.name, { start: -1, line: -1 }, 1);
  return item?.start;
}
