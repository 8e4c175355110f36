// The flame graph of what is selected: a tab of the panel.
import type { CallPaths, CallPathTable } from "../data/call-paths";
import { CODE_KINDS } from "../data/call-paths";
import { addUp, bothTrees, byFunction, calleeTree, callerTree, Group, matched, sandwich, Weights, type Box, type CodeTimes } from "../data/flame";
import { Kind } from "../data/index";
import { Patience } from "../data/query";
import { parseQuery } from "../data/search";
import { boxName, enclosing, placeSandwich, placeTree, type Flame, type Narrow, type PlacedBox } from "../draw/flame";
import { codeColour, css } from "../draw/palette";
import { shortName } from "../view/code-name";
import { count, duration, percent } from "../view/units";
import { codeSubject, sampledThreads, type CodeChoice, type CodeSubject } from "./code-subject";
import { threadLabel } from "./describe";
import { fill, h } from "./dom";
import { FlameCanvas } from "./flame-canvas";
import { copy, placeOf } from "./stack";
import type { ViewState } from "./state";
import { table, type Cell } from "./table";
import { button, link, swatch, swatched } from "./widgets";

/** Which time: of threads that ran, that waited, or both side by side. */
type Sort = "running" | "waiting" | "both";
/** How it is arranged. */
type View = "callees" | "callers" | "table";

const SORTS: [Sort, string][] = [["running", "On CPU"], ["waiting", "Waiting"], ["both", "Both"]];
const VIEWS: [View, string][] = [["callees", "Callers on top"], ["callers", "By function, callers below"], ["table", "Table"]];

const HINT = "A click on a box zooms to it, a double click or Escape goes back; arrow keys go from box to box.";

/** Everything that was added up for one subject. */
interface Sums {
  subject: CodeSubject;
  times: CodeTimes;
  running: Weights;
  waiting: Weights;
}

export class FlameTab {
  private readonly box = h("div", { class: "flame" });
  private readonly graph: FlameCanvas;
  private readonly controls: HTMLElement;
  private readonly facts = h("p", { class: "flame-facts", role: "status" });
  private readonly crumbs = h("nav", { class: "flame-crumbs", "aria-label": "Boxes that enclose what is shown" });
  private readonly chosen = h("div", { class: "flame-chosen" });
  private readonly content = h("div", { class: "flame-content" });
  private readonly legend = h("div", { class: "flame-legend", "aria-label": "Colours of the flame graph", role: "group" });
  private readonly share = h("span", { class: "muted", role: "status" });
  private readonly names = h("option", { value: "name" }, "All slices of this name");
  private readonly choice: CodeChoice = { time: "selected", threads: "usual" };
  private sort: Sort = "running";
  private view: View = "callees";
  private run = 0;
  private paths: CallPaths | undefined;
  private sums: Sums | undefined;
  private root: Box | undefined;
  private focus: Box | undefined;
  /** The function whose callers and callees are shown. */
  private around: number | undefined;
  /** What was shown before, latest last. */
  private readonly history: { focus: Box | undefined; around: number | undefined }[] = [];
  private matches: Uint8Array | undefined;

  constructor(
    private readonly state: ViewState,
    private readonly table: CallPathTable,
  ) {
    this.graph = new FlameCanvas({
      functions: () => this.paths?.functions ?? [],
      theme: () => state.theme,
      matches: () => this.matches,
      place: (width) => this.place(width),
      zoom: (box) => this.zoom(box),
      back: () => this.back(),
      at: (box) => this.showChosen(box),
      describe: (what) => this.describe(what),
    });
    this.controls = this.makeControls();
    this.box.append(this.controls, this.facts, this.crumbs, this.content, this.chosen, this.legend);
  }

  /** The tab's element; what it shows is being worked out. */
  open(): HTMLElement {
    void this.update();
    return this.box;
  }

  /** Adds up what is asked for now. A later call ends an earlier one. */
  async update(): Promise<void> {
    const run = ++this.run;
    const cancelled = (): boolean => run !== this.run;
    this.names.disabled = this.state.selected?.line.kind !== Kind.Slice;
    const paths = await this.table.read();
    if (cancelled()) return;
    this.paths = paths;
    const subject = await codeSubject(this.state, this.choice, new Patience(cancelled));
    if (!subject || cancelled()) return;
    const times = addUp(paths, subject.query);
    this.sums = { subject, times, running: new Weights(paths, times.running, times.runningLost), waiting: new Weights(paths, times.waiting, times.waitingLost) };
    this.rebuild();
  }

  /** Another part of the chart is in view. */
  viewChanged(): void {
    if (this.choice.time === "view") void this.update();
  }

  // ---- controls --------------------------------------------------------------------------------------------------

  private makeControls(): HTMLElement {
    const { state } = this;
    const { index } = state.recording;
    const option = (value: string, text: string): HTMLElement => h("option", { value }, text);
    const times = h("select", { "aria-label": "time that is added up", onchange: () => this.choose({ time: times.value as CodeChoice["time"] }) }, option("selected", "What is selected, else everything"), option("view", "What is in view"), this.names, option("everything", "Everything"));
    const sampled = sampledThreads(index.call_paths?.samples ?? []);
    const ofThread = (value: string): CodeChoice["threads"] => (value === "usual" || value === "all" ? value : Number(value));
    const threads = h("select", { "aria-label": "threads that are added up", onchange: () => this.choose({ threads: ofThread(threads.value) }) }, option("usual", "Its threads"), option("all", "All threads"), ...sampled.map((t) => option(String(t), threadLabel(state.recording, t))));
    const search = h("input", { type: "search", class: "filter", placeholder: "Find functions", "aria-label": "find functions by name, text or /regular expression/", oninput: () => this.search(search.value) });
    return h("div", { class: "flame-controls" }, times, threads, this.radios("What is added up", SORTS, (sort) => this.set({ sort }), () => this.sort), this.radios("Arrangement", VIEWS, (view) => this.set({ view }), () => this.view), search, this.share);
  }

  /** Buttons of which one is pressed. */
  private radios<T extends string>(label: string, of: [T, string][], set: (value: T) => void, get: () => T): HTMLElement {
    const buttons = of.map(([value, text]) => h("button", { type: "button", class: "tool", "data-do": `flame-${value}`, "aria-pressed": String(get() === value), onclick: () => set(value) }, text));
    const group = h("div", { class: "flame-group", role: "group", "aria-label": label }, ...buttons);
    this.pressed.push(() => of.forEach(([value], i) => buttons[i]!.setAttribute("aria-pressed", String(get() === value))));
    return group;
  }

  private readonly pressed: (() => void)[] = [];

  private choose(part: Partial<CodeChoice>): void {
    Object.assign(this.choice, part);
    void this.update();
  }

  private set(part: { sort?: Sort; view?: View }): void {
    if (part.sort) this.sort = part.sort;
    if (part.view) this.view = part.view;
    this.history.length = 0;
    this.focus = this.around = undefined;
    this.rebuild();
  }

  private search(text: string): void {
    const query = parseQuery(text);
    this.matches = query && Uint8Array.from(this.paths?.functions ?? [], ({ name }) => (query.test(name) ? 1 : 0));
    this.showShare(query?.error);
    this.graph.ask();
    if (this.view === "table") this.rebuild();
  }

  private showShare(error?: string): void {
    const { sums, matches } = this;
    if (!sums || !matches) this.share.textContent = "";
    else if (error !== undefined) this.share.textContent = `no regular expression: ${error}`;
    else {
      const all = this.shown(sums);
      const ns = all.reduce((sum, weights) => sum + matched(weights, matches), 0);
      this.share.textContent = `${percent(ns, this.total(sums))} of the time (${duration(ns)}) is in what matches`;
    }
  }

  // ---- what is shown ---------------------------------------------------------------------------------------------

  private shown(sums: Sums): Weights[] {
    return this.sort === "both" ? [sums.running, sums.waiting] : [sums[this.sort]];
  }

  private total(sums: Sums): number {
    return this.shown(sums).reduce((sum, weights) => sum + weights.sum, 0);
  }

  /** Makes the boxes anew, and stays at the function that was zoomed to where it is still there. */
  private rebuild(): void {
    const { sums, paths } = this;
    if (!sums || !paths) return;
    this.pressed.forEach((update) => update());
    const trail = this.focus ? [...enclosing(this.focus), this.focus].map(({ fn }) => fn) : [];
    const tree = this.view === "callers" ? callerTree : calleeTree;
    this.root = this.sort === "both" ? bothTrees(sums.running, sums.waiting, tree) : tree(sums[this.sort], Group.All);
    this.focus = follow(this.root, trail.slice(1));
    this.history.length = 0;
    this.graph.current = undefined;
    fill(this.chosen, h("span", { class: "muted" }, HINT));
    this.showFacts(sums);
    const kinds = [...new Set(paths.functions.map(({ kind }) => kind))].sort((a, b) => a - b);
    fill(this.legend, ...kinds.map((kind) => swatch(css(codeColour(kind, this.state.theme.dark)), CODE_KINDS[kind] ?? "")));
    this.showShare();
    this.show(this.view === "table" ? this.functionTable(sums, paths) : this.total(sums) > 0 ? this.graph.element : h("p", { class: "muted" }, this.emptyText(sums)));
    this.changed();
  }

  /** Puts `element` where boxes or the table are. What is there stays, since taking it away would take the focus from it. */
  private show(element: HTMLElement): void {
    if (this.content.firstChild !== element) fill(this.content, element);
  }

  private emptyText(sums: Sums): string {
    const other = this.sort === "running" ? sums.waiting.sum : sums.running.sum;
    if (sums.times.samples === 0 || other === 0) return "No sample was taken here.";
    return this.sort === "running" ? "No thread was sampled on a CPU here; Waiting shows where they waited." : "No wait was sampled here; On CPU shows what ran.";
  }

  private showFacts({ subject, times, running, waiting }: Sums): void {
    const { sort } = this;
    const runs = sort !== "waiting";
    const waits = sort !== "running";
    const sampled = (runs ? running.sum : 0) + (waits ? waiting.sum : 0);
    const complete = (runs ? times.runningComplete : 0) + (waits ? times.complete - times.runningComplete : 0);
    const unsampled = (runs ? times.runningUnsampled : 0) + (waits ? times.waitingUnsampled : 0);
    const samples = (runs ? times.runningSamples : 0) + (waits ? times.samples - times.runningSamples : 0);
    const what = [...(runs ? [`${duration(running.sum)} on CPU`] : []), ...(waits ? [`${duration(waiting.sum)} waiting`] : [])].join(", ");
    fill(
      this.facts,
      h("strong", {}, subject.text),
      `: ${what}, from ${count(samples)} sample${samples === 1 ? "" : "s"}`,
      sampled > 0 && `; ${percent(complete, sampled)} of this time has a complete stack`,
      unsampled > 0 && `; besides, ${duration(unsampled)} (${percent(unsampled, unsampled + sampled)} of all) unsampled`,
    );
  }

  private place(width: number): Flame {
    const { root, focus, around, sums } = this;
    if (around !== undefined && sums) return placeSandwich(sandwich(this.shown(sums)[0]!, around), width);
    return root ? placeTree(focus ?? root, width) : { placed: [], narrow: [], rows: 0, middle: 0 };
  }

  private changed(): void {
    this.showCrumbs();
    this.graph.ask();
  }

  private zoom(box: Box): void {
    // In a sandwich a click goes to that function's own.
    if (this.around !== undefined) {
      if (box.fn >= 0 && box.fn !== this.around) this.goAround(box.fn);
      return;
    }
    const now = this.focus ?? this.root;
    if (box === now) return;
    this.history.push({ focus: this.focus, around: undefined });
    this.focus = box;
    this.changed();
  }

  /** Shows the callers and the callees of a function. */
  private goAround(fn: number): void {
    const { sums } = this;
    if (!sums) return;
    // A sandwich is of one sort: the one in which the function has more time.
    if (this.sort === "both") this.sort = sandwich(sums.waiting, fn).callees.total > sandwich(sums.running, fn).callees.total ? "waiting" : "running";
    this.history.push({ focus: this.focus, around: this.around });
    this.around = fn;
    if (this.view === "table") this.view = "callees";
    this.pressed.forEach((update) => update());
    this.show(this.graph.element);
    this.graph.current = undefined;
    this.graph.reveal();
    this.changed();
  }

  private back(): boolean {
    const before = this.history.pop();
    if (!before && this.focus === undefined && this.around === undefined) return false;
    this.focus = before?.focus;
    this.around = before?.around;
    if (this.around !== undefined) this.graph.reveal();
    this.changed();
    return true;
  }

  private showCrumbs(): void {
    const { focus, root, around, paths } = this;
    if (!root || !paths) return;
    const name = (box: Box): string => shortName(boxName(box, paths.functions));
    const to = (box: Box | undefined): void => {
      this.history.push({ focus: this.focus, around: this.around });
      this.focus = box;
      this.around = undefined;
      this.changed();
    };
    if (around === undefined && (!focus || focus === root)) {
      fill(this.crumbs, h("strong", {}, name(root)));
      return;
    }
    const last = around !== undefined ? `callers and callees of ${shortName(paths.functions[around]?.name ?? "?")}` : name(focus!);
    const above = around !== undefined ? [root] : enclosing(focus!);
    fill(this.crumbs, button("Back (Escape, or a double click)", "Back", () => this.back()), ...above.flatMap((box) => [link(name(box), () => to(box === root ? undefined : box)), " \u203a "]), h("strong", {}, last));
  }

  // ---- one box ---------------------------------------------------------------------------------------------------

  /** `60 % of all, 1.2 s; 0.1 s in itself`. */
  private timeText(box: Box): string {
    const { sums } = this;
    const all = sums ? this.total(sums) : 0;
    const self = box.fn >= 0 && this.view === "callees" ? `, ${duration(box.self)} (${percent(box.self, box.total)}) in itself` : "";
    return `${duration(box.total)}, ${percent(box.total, all)} of what is shown${self}`;
  }

  private describe(what: PlacedBox | Narrow): HTMLElement[] {
    const { paths, state } = this;
    if (!paths) return [];
    if (!("box" in what)) return [h("div", {}, `${count(what.boxes)} functions, too narrow to be drawn: ${duration(what.ns)}; a click on what is above zooms`)];
    const { box } = what;
    const lines = [h("strong", {}, boxName(box, paths.functions)), h("div", {}, this.timeText(box))];
    const fn = paths.functions[box.fn];
    if (!fn) return lines;
    lines.push(swatch(css(codeColour(fn.kind, state.theme.dark)), CODE_KINDS[fn.kind] ?? "", "", fn.module));
    for (const { frame, ns } of (box.weights?.lines(box.nodes) ?? []).slice(0, 3)) {
      const place = placeOf(state.recording, paths, frame);
      if (place !== "") lines.push(h("div", { class: "muted" }, `${place} ${percent(ns, box.total)}`));
    }
    return lines;
  }

  /** The box that was clicked, or that the keys are at. */
  private showChosen(box: Box): void {
    const { paths, state } = this;
    if (!paths) return;
    const name = boxName(box, paths.functions);
    state.said.emit(`${name}, ${this.timeText(box)}`);
    const fn = paths.functions[box.fn];
    const places = fn ? (box.weights?.lines(box.nodes) ?? []).map(({ frame }) => placeOf(state.recording, paths, frame)).filter((place) => place !== "") : [];
    const done = h("span", { class: "muted", role: "status" });
    const place = [...new Set(places)][0];
    fill(
      this.chosen,
      h("strong", { title: name }, shortName(name)),
      ` ${this.timeText(box)} `,
      fn && fn.module !== "" && h("span", { class: "muted" }, fn.module),
      place !== undefined && link(place, () => void copy(place).then(() => (done.textContent = "copied"))),
      fn && button("Callers and callees: who calls it, and what it calls", "Callers and callees", () => this.goAround(box.fn)),
      done,
    );
  }

  private functionTable(sums: Sums, paths: CallPaths): HTMLElement {
    const all = this.total(sums);
    const { dark } = this.state.theme;
    const rows = this.shown(sums).flatMap((weights) =>
      byFunction(weights, paths.functions.length)
        .filter(({ fn }) => this.matches?.[fn] !== 0)
        .map(({ fn, self, total }): Cell[] => {
          const { name, module, kind } = paths.functions[fn]!;
          const time = (ns: number): Cell[] => [{ value: ns, text: duration(ns) }, { value: ns, text: percent(ns, all) }];
          return [{ ...(swatched(css(codeColour(kind, dark)), shortName(name)) as Exclude<Cell, string | number>), go: () => this.goAround(fn) }, ...time(self), ...time(total), module];
        }),
    );
    const columns = [{ text: "function" }, { text: "itself", number: true }, { text: "share", number: true }, { text: "with callees", number: true }, { text: "share", number: true }, { text: "module" }];
    return table({ columns, rows, sortBy: 1 });
  }
}

/** The box under `root` at the end of a trail of functions, or the last one on it that is there. */
function follow(root: Box, trail: number[]): Box {
  let at = root;
  for (const fn of trail) {
    const next = at.children().find((box) => box.fn === fn);
    if (!next) break;
    at = next;
  }
  return at;
}
