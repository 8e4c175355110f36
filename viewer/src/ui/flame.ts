// The flame graph of what is selected, alone or compared with something else: a tab of the panel.
import type { CallPaths, CallPathTable } from "../data/call-paths";
import type { CpuPieces, PieceTable } from "../data/pieces";
import { bothTrees, calleeTree, callerTree, Group, sandwich, type Box } from "../data/flame";
import { compared, inCommon } from "../data/flame-diff";
import { Patience } from "../data/query";
import { parseQuery } from "../data/search";
import { nameOf } from "../data/value";
import { boxName, enclosing, placeSandwich, placeTree, type Flame } from "../draw/flame";
import { classOrder } from "../draw/palette";
import { shortName } from "../view/code-name";
import { codeSubject, othersOf, restOf, sameName, sampledThreads, selectedName, type CodeChoice, type CodeSubject } from "./code-subject";
import { threadLabel } from "./describe";
import { fill, h } from "./dom";
import { FlameCanvas } from "./flame-canvas";
import { boxLines, emptyText, factsOf, flameLegend, functionTable, placesOf, shareText, sumsOf, timeText, totalOf, weightsOf, type Shown, type Sort, type Sums } from "./flame-words";
import { copy } from "./stack";
import type { ViewState } from "./state";
import { button, link } from "./widgets";

/** How it is arranged. */
type View = "callees" | "callers" | "table";
/** What it is compared with: nothing, what was shown when this was chosen, other times, other threads, the page's other recording. */
type Against = "nothing" | "kept" | "rest" | "others" | "recording";

const SORTS: [Sort, string][] = [["running", "On CPU"], ["waiting", "Waiting"], ["both", "Both"]];
const VIEWS: [View, string][] = [["callees", "Callers on top"], ["callers", "By function"], ["table", "Table"]];
const AGAINST: [Against, string][] = [["nothing", "Not compared"], ["kept", "Compared with what is shown now"], ["rest", "Compared with the rest of the time"], ["others", "Compared with the other threads"], ["recording", "Compared with the other recording"]];

/** The page's other recording; `first`: it is the one above, which is A of a comparison. */
export interface OtherRecording {
  state: ViewState;
  table: CallPathTable;
  pieces: PieceTable;
  first: boolean;
}

/** Where in the height the function between its callers and callees stands at first, and the row where a tree divides. */
const SANDWICH_AT = 0.5;
const TREE_AT = 0.2;
const HINT = "A click on a box zooms to it, a double click or Escape goes back; arrow keys go from box to box.";

export class FlameTab {
  private readonly box = h("div", { class: "flame" });
  private readonly graph: FlameCanvas;
  private readonly controls = h("div", { class: "flame-controls" });
  private readonly facts = h("p", { class: "flame-facts", role: "status" });
  private readonly crumbs = h("nav", { class: "flame-crumbs", "aria-label": "Boxes that enclose what is shown" });
  private readonly chosen = h("div", { class: "flame-chosen" });
  private readonly content = h("div", { class: "flame-content" });
  private readonly legend = h("div", { class: "flame-legend", "aria-label": "Colours of the flame graph", role: "group" });
  private readonly share = h("span", { class: "muted", role: "status" });
  private readonly names = h("option", { value: "name" }, "");
  private readonly choice: CodeChoice = { time: "selected", threads: "usual" };
  /** The value of the slices that are asked for by name: the one selected last, or chosen elsewhere. */
  private named: number | undefined;
  /** What a person asked for; undefined: what ran, and of what did not run at all, what it waited in. */
  private chosenSort: Sort | undefined;
  private view: View = "callees";
  private against: Against = "nothing";
  private run = 0;
  private sums: Sums | undefined;
  /** What `sums` is compared with. */
  private base: Sums | undefined;
  private kept: Sums | undefined;
  /** The call paths of this and of the page's other recording, once they were compared. */
  private joint: [CallPaths, CallPaths] | undefined;
  private root: Box | undefined;
  /** What the boxes are of: another picture begins at the row where it divides. */
  private showing = "";
  private focus: Box | undefined;
  /** The function whose callers and callees are shown. */
  private around: number | undefined;
  /** What was shown before, latest last. */
  private readonly history: { focus: Box | undefined; around: number | undefined }[] = [];
  private query: ReturnType<typeof parseQuery>;
  private matches: Uint8Array | undefined;

  constructor(
    private readonly state: ViewState,
    private readonly table: CallPathTable,
    private readonly pieces: PieceTable,
    private readonly other: () => OtherRecording | undefined,
  ) {
    this.graph = new FlameCanvas({
      functions: () => this.sums?.paths.functions ?? [],
      theme: () => state.theme,
      matches: () => this.matches,
      place: (width) => this.place(width),
      zoom: (box) => this.zoom(box),
      back: () => this.back(),
      at: (box) => this.showChosen(box),
      describe: (what) => (this.shown ? boxLines(this.shown, what, this.view === "callees") : []),
    });
    this.box.append(this.controls, this.facts, h("div", { class: "flame-head" }, this.crumbs, this.legend), this.content, this.chosen);
  }

  /** The tab's element; what it shows is being worked out. */
  open(): HTMLElement {
    // Only now is it known whether the page has another recording.
    if (!this.controls.firstChild) this.makeControls();
    void this.update();
    return this.box;
  }

  /** Shows all slices of a name: `value` is theirs. */
  showName(value: number): void {
    this.named = value;
    this.show({ time: "name", loss: undefined });
  }

  /** Shows the code behind a class of the account: of what is selected, or, as the account does without that, of what is in view. */
  showLoss(loss: number): void {
    const { area, selected } = this.state;
    const isPart = area !== undefined || (selected !== undefined && selected.end > selected.start);
    this.show({ time: isPart ? "selected" : "view", threads: "usual", loss });
  }

  private show(part: Partial<CodeChoice>): void {
    Object.assign(this.choice, part);
    this.against = "nothing";
    this.history.length = 0;
    this.focus = this.around = undefined;
    this.controls.replaceChildren();
  }

  /** Something else is selected. */
  selectionChanged(): void {
    this.named = selectedName(this.state) ?? this.named;
    void this.update();
  }

  /** Adds up what is asked for now. A later call ends an earlier one. */
  async update(): Promise<void> {
    const run = ++this.run;
    const cancelled = (): boolean => run !== this.run;
    this.named ??= selectedName(this.state);
    this.offer();
    const paths = await this.table.read();
    const pieces = this.choice.loss === undefined ? undefined : await this.pieces.read();
    if (cancelled()) return;
    const patience = new Patience(cancelled);
    const subject = await codeSubject(this.state, this.choice, patience, this.named);
    if (!subject || cancelled()) return;
    const { recording } = this.state;
    const own = (subject: CodeSubject): Sums => sumsOf(recording, paths, subject, pieces);
    const found = this.against === "recording" ? await this.ofBoth(paths, pieces, subject, patience) : { sums: own(subject), base: this.baseOf(subject, own) };
    if (!found || cancelled()) return;
    // Of two recordings the functions have other numbers than of one.
    if (this.sums?.paths.functions !== found.sums.paths.functions) this.focus = this.around = undefined;
    ({ sums: this.sums, base: this.base } = found);
    this.match();
    this.rebuild();
  }

  /** What `subject` is compared with, in this recording. */
  private baseOf(subject: CodeSubject, add: (subject: CodeSubject) => Sums): Sums | undefined {
    const { recording } = this.state;
    if (this.against === "rest") return add(restOf(subject, recording));
    if (this.against === "others") return add(othersOf(subject, recording));
    return this.against === "kept" ? this.kept : undefined;
  }

  /** Both recordings of the page; whichever this one is, A is the one above. */
  private async ofBoth(paths: CallPaths, pieces: readonly CpuPieces[] | undefined, subject: CodeSubject, patience: Patience): Promise<{ sums: Sums; base: Sums } | undefined> {
    const { recording } = this.state;
    const other = this.other();
    if (!other) return undefined;
    const there = other.state.recording;
    const name = this.named;
    const choice: CodeChoice = { time: this.choice.time, threads: this.choice.threads === "all" ? "all" : "usual", loss: this.choice.loss };
    const its = await codeSubject(other.state, choice, patience, name === undefined ? undefined : sameName(there, recording, name));
    if (!its) return undefined;
    this.joint ??= inCommon(paths, await other.table.read());
    const mine = sumsOf(recording, this.joint[0], subject, pieces);
    // Paths keep their numbers when functions are joined, and all files number the classes alike.
    const theirs = sumsOf(there, this.joint[1], its, its.loss && (await other.pieces.read()));
    return other.first ? { sums: mine, base: theirs } : { sums: theirs, base: mine };
  }

  /** Another part of the chart is in view. */
  viewChanged(): void {
    if (this.choice.time === "view") void this.update();
  }

  /** Something else is selected in the page's other recording, or in view there. */
  otherChanged(): void {
    if (this.against === "recording") void this.update();
  }

  /** Of a class all code explains it, whether it ran or waited. */
  private get sort(): Sort {
    if (this.choice.loss !== undefined) return "running";
    const { sums, base } = this;
    const none = (sort: Sort): boolean => [sums, base].every((of) => !of || totalOf(of, sort) === 0);
    return this.chosenSort ?? (none("running") && !none("waiting") ? "waiting" : "running");
  }

  private get shown(): Shown | undefined {
    const { sums, base, sort } = this;
    return sums && { sums, base, sort, dark: this.state.theme.dark };
  }

  // ---- controls --------------------------------------------------------------------------------------------------

  private makeControls(): void {
    const { state, choice } = this;
    const { index } = state.recording;
    this.pressed.length = 0;
    const option = (value: string, text: string): HTMLElement => h("option", { value }, text);
    const times = h("select", { "aria-label": "time that is added up", onchange: () => this.choose({ time: times.value as CodeChoice["time"] }) }, option("selected", "What is selected"), option("view", "What is in view"), this.names, option("everything", "Everything"));
    const sampled = sampledThreads(index.call_paths?.samples ?? []);
    const ofThread = (value: string): CodeChoice["threads"] => (value === "usual" || value === "all" ? value : Number(value));
    const threads = h("select", { "aria-label": "threads that are added up", onchange: () => this.choose({ threads: ofThread(threads.value) }) }, option("usual", "Its threads"), option("all", "All threads"), ...sampled.map((t) => option(String(t), threadLabel(state.recording, t))));
    const search = h("input", { type: "search", class: "filter", placeholder: "Find functions", "aria-label": "find functions by name, text or /regular expression/", oninput: () => this.search(search.value) });
    const offered = AGAINST.filter(([value]) => value !== "recording" || this.other() !== undefined);
    const against = h("select", { "aria-label": "what it is compared with", onchange: () => this.compare(against.value as Against) }, ...offered.map(([value, text]) => option(value, text)));
    const losses = this.lossList(option);
    times.value = choice.time;
    threads.value = String(choice.threads);
    against.value = this.against;
    this.offer = () => {
      this.names.disabled = this.named === undefined;
      this.names.textContent = this.named === undefined ? "All slices of this name" : `All "${state.recording.text(nameOf(this.named))}"`;
      // A class is CPU time, which no thread owns.
      const ofClass = choice.loss !== undefined;
      threads.disabled = ofClass;
      for (const option of against.options) option.disabled = ofClass && option.value === "others";
      for (const button of this.sortButtons) button.disabled = ofClass;
    };
    const sorts = this.radios("What is added up", SORTS, (sort) => this.set({ sort }), () => this.sort);
    this.sortButtons = [...sorts.querySelectorAll("button")];
    this.offer();
    fill(this.controls, times, losses, threads, against, sorts, this.radios("Arrangement", VIEWS, (view) => this.set({ view }), () => this.view), search, this.share);
  }

  /** Buttons of which one is pressed. */
  private radios<T extends string>(label: string, of: [T, string][], set: (value: T) => void, get: () => T): HTMLElement {
    const buttons = of.map(([value, text]) => h("button", { type: "button", class: "tool", "data-do": `flame-${value}`, "aria-pressed": String(get() === value), onclick: () => set(value) }, text));
    const group = h("div", { class: "flame-group", role: "group", "aria-label": label }, ...buttons);
    this.pressed.push(() => of.forEach(([value], i) => buttons[i]!.setAttribute("aria-pressed", String(get() === value))));
    return group;
  }

  private readonly pressed: (() => void)[] = [];
  /** Enables what can be chosen now. */
  private offer: () => void = () => undefined;
  private sortButtons: HTMLButtonElement[] = [];

  /** The classes whose time samples explain; undefined: nothing is known of the code behind any. */
  private lossList(option: (value: string, text: string) => HTMLElement): HTMLSelectElement | undefined {
    const { account } = this.state.recording.index;
    if (!this.pieces.exists || !account) return undefined;
    const classes = classOrder(account.classes.map(([key]) => key)).filter((c) => account.classes[c]![4]);
    const list = h("select", { "aria-label": "class of the account that is added up", onchange: () => this.chooseLoss(list.value === "" ? undefined : Number(list.value)) }, option("", "All time of threads"), ...classes.map((c) => option(String(c), `CPU time: ${account.classes[c]![1]}`)));
    list.value = this.choice.loss === undefined ? "" : String(this.choice.loss);
    return list;
  }

  private chooseLoss(loss: number | undefined): void {
    // What was kept is of another sort of time.
    if (this.against === "others" || this.against === "kept") this.against = "nothing";
    this.choice.loss = loss;
    this.controls.replaceChildren();
    this.makeControls();
    this.controls.querySelector<HTMLElement>('[aria-label^="class of"]')?.focus();
    void this.update();
  }

  private choose(part: Partial<CodeChoice>): void {
    Object.assign(this.choice, part);
    void this.update();
  }

  private compare(against: Against): void {
    this.against = against;
    this.kept = against === "kept" ? this.sums : undefined;
    void this.update();
  }

  private set(part: { sort?: Sort; view?: View }): void {
    if (part.sort) this.chosenSort = part.sort;
    if (part.view) this.view = part.view;
    this.history.length = 0;
    this.focus = this.around = undefined;
    this.rebuild();
  }

  private search(text: string): void {
    this.query = parseQuery(text);
    this.match();
    this.showShare();
    this.graph.ask();
    if (this.view === "table") this.rebuild();
  }

  /** Finds the functions that are looked for. */
  private match(): void {
    const { query } = this;
    this.matches = query && Uint8Array.from(this.sums?.paths.functions ?? [], ({ name }) => (query.test(name) ? 1 : 0));
  }

  private showShare(): void {
    const { shown, matches, query } = this;
    if (!shown || !matches) this.share.textContent = "";
    else this.share.textContent = query?.error !== undefined ? `no regular expression: ${query.error}` : shareText(shown, matches);
  }

  // ---- what is shown ---------------------------------------------------------------------------------------------

  /** The boxes of all that is shown, of one subject or of two. */
  private rootOf({ sums, base, sort }: Shown): Box {
    const tree = this.view === "callers" ? callerTree : calleeTree;
    const root = (of: Sums): Box => (sort === "both" ? bothTrees(of.running, of.waiting, tree) : tree(of[sort], Group.All));
    return base ? compared([root(base), root(sums)], [totalOf(base, sort), totalOf(sums, sort)]) : root(sums);
  }

  /** Makes the boxes anew, and stays at the function that was zoomed to where it is still there. */
  private rebuild(): void {
    const { shown } = this;
    if (!shown) return;
    const { sums, base, sort } = shown;
    this.pressed.forEach((update) => update());
    const trail = this.focus ? [...enclosing(this.focus), this.focus].map(({ fn }) => fn) : [];
    this.root = this.rootOf(shown);
    this.focus = follow(this.root, trail.slice(1));
    this.history.length = 0;
    this.graph.current = undefined;
    fill(this.chosen, h("span", { class: "muted" }, HINT));
    fill(this.facts, ...(base ? [this.sideFacts("A", base), this.sideFacts("B", sums)] : factsOf(sums, sort)));
    fill(this.legend, ...flameLegend(shown, this.state.theme.head));
    this.showShare();
    // Frames that all have in common would take the first rows, and what tells the boxes apart would be out of sight.
    const showing = [sums.subject.text, sort, this.view].join();
    if (showing !== this.showing && this.around === undefined) this.graph.reveal(TREE_AT);
    this.showing = showing;
    const all = totalOf(sums, sort) + (base ? totalOf(base, sort) : 0);
    this.put(this.view === "table" ? functionTable(shown, this.matches, (fn) => this.goAround(fn)) : all > 0 ? this.graph.element : h("p", { class: "muted" }, emptyText(shown)));
    this.changed();
  }

  /** One line for each side; the pointer that rests on it shows the whole of it. */
  private sideFacts(side: string, of: Sums): HTMLElement {
    const line = h("div", {}, `${side}: `, ...factsOf(of, this.sort));
    line.title = line.textContent;
    return line;
  }

  /** Puts `element` where boxes or the table are. What is there stays, since taking it away would take the focus from it. */
  private put(element: HTMLElement): void {
    if (this.content.firstChild !== element) fill(this.content, element);
  }

  private place(width: number): Flame {
    const { root, focus, around, shown } = this;
    if (around !== undefined && shown) return placeSandwich(this.sandwichOf(shown, around), width);
    return root ? placeTree(focus ?? root, width) : { placed: [], narrow: [], rows: 0, middle: 0 };
  }

  private sandwichOf({ sums, base, sort }: Shown, fn: number): { callers: Box; callees: Box } {
    const parts = (of: Sums): { callers: Box; callees: Box } => sandwich(weightsOf(of, sort)[0]!, fn);
    const b = parts(sums);
    if (!base) return b;
    const a = parts(base);
    const totals: [number, number] = [totalOf(base, sort), totalOf(sums, sort)];
    return { callers: compared([a.callers, b.callers], totals), callees: compared([a.callees, b.callees], totals) };
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
    if (this.sort === "both") this.chosenSort = sandwich(sums.waiting, fn).callees.total > sandwich(sums.running, fn).callees.total ? "waiting" : "running";
    this.history.push({ focus: this.focus, around: this.around });
    this.around = fn;
    if (this.view === "table") this.view = "callees";
    this.pressed.forEach((update) => update());
    this.put(this.graph.element);
    this.graph.current = undefined;
    this.graph.reveal(SANDWICH_AT);
    this.changed();
  }

  private back(): boolean {
    const before = this.history.pop();
    if (!before && this.focus === undefined && this.around === undefined) return false;
    this.focus = before?.focus;
    this.around = before?.around;
    if (this.around !== undefined) this.graph.reveal(SANDWICH_AT);
    this.changed();
    return true;
  }

  private showCrumbs(): void {
    const { focus, root, around } = this;
    const paths = this.sums?.paths;
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

  /** The box that was clicked, or that the keys are at. */
  private showChosen(box: Box): void {
    const { shown, state } = this;
    if (!shown) return;
    const { functions } = shown.sums.paths;
    const name = boxName(box, functions);
    const time = timeText(shown, box, this.view === "callees");
    state.said.emit(`${name}, ${time}`);
    const fn = functions[box.fn];
    const place = fn && placesOf(shown, box)[0]?.place;
    const done = h("span", { class: "muted", role: "status" });
    fill(
      this.chosen,
      h("strong", { title: name }, shortName(name)),
      ` ${time} `,
      fn && fn.module !== "" && h("span", { class: "muted" }, fn.module),
      place !== undefined && link(place, () => void copy(place).then(() => (done.textContent = "copied"))),
      fn && button("Callers and callees: who calls it, and what it calls", "Callers and callees", () => this.goAround(box.fn)),
      done,
    );
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
