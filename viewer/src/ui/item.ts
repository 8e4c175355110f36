// The details of one item.
import type { CallPathTable } from "../data/call-paths";
import { argumentsOf, type Argument } from "../data/columns";
import { linesOf, sliceDetails, stateDetails, type StateShare } from "../data/details";
import { Kind, SliceKind, State, STATE_NAMES } from "../data/index";
import { itemAt, Patience, type Item } from "../data/query";
import { holders, sliceOfLock, waitsOf, type Blame, type Waits } from "../data/waits";
import type { TaskTable } from "../data/tasks";
import { encodeNamed, kindOf, nameOf } from "../data/value";
import { css, stateColour } from "../draw/palette";
import { duration, instant, percent } from "../view/units";
import { itemKind, itemThread, itemTitle, lockName, ownerLabel, threadLabel } from "./describe";
import { fill, h } from "./dom";
import { histogram } from "./histogram";
import type { Navigation } from "./navigation";
import type { Search } from "./search";
import type { Selection } from "./selection";
import { codeOf } from "./stack";
import type { ViewState } from "./state";
import { table, type Cell } from "./table";
import { taskFacts } from "./tasks";
import { fact, link, shareBar, swatched, tool } from "./widgets";

/** What the details of an item use. */
export interface ItemParts {
  state: ViewState;
  selection: Selection;
  search: Search;
  navigation: Navigation;
  tasks: TaskTable;
  callPaths: CallPathTable;
  addNote: () => void;
  /** Leads to the code that ran in all slices of a name; undefined: there are no samples. */
  showName: ((value: number) => void) | undefined;
}

/** Builds the details of `item`; they fill up while parts of the recording are read. */
export class ItemDetails {
  readonly box: HTMLElement;
  private readonly facts = h("dl", { class: "facts-list" });
  private readonly sides = h("div", { class: "sides" });

  constructor(
    private readonly parts: ItemParts,
    private readonly item: Item,
    private readonly cancelled: () => boolean,
  ) {
    this.box = h("div", { class: "details" }, this.heading(), h("div", { class: "columns" }, this.facts, this.sides));
    this.common();
  }

  /** Adds what has to be read first. Another selection ends it: after each wait it looks whether it is still wanted. */
  async fill(): Promise<void> {
    const { item, facts } = this;
    if (item.line.kind === Kind.Slice) await this.slice();
    else if (item.line.kind === Kind.State) await this.state();
    else if (item.line.kind === Kind.Lock) await this.lock();
    else if (item.line.kind === Kind.Cpu) fact(facts, "CPU", String(item.line.owner));
    else if (item.line.kind === Kind.Instant) this.args(argumentsOf(item.unit, item.i));
  }

  private goTo(item: Item): void {
    this.parts.selection.goTo(item);
  }

  /** Adds a column beside the facts, unless there is nothing in it. */
  private side(...children: (HTMLElement | null)[]): void {
    if (children.some((child) => child !== null)) this.sides.append(h("div", { class: "side" }, ...children));
  }

  /** The item's name and colour, and what can be done with it. */
  private heading(): HTMLElement {
    const { item } = this;
    const { state, selection, navigation, addNote, showName } = this.parts;
    // A counter's value is a number to be drawn as a height, and has no colour: grey.
    const rgb = item.line.kind === Kind.Counter ? 0x888888 : state.colours.of(item.line.kind, item.value);
    return h(
      "div",
      { class: "heading" },
      h("i", { class: "colour", style: `--c:${css(rgb)}` }),
      h("h2", {}, itemTitle(state.recording, item)),
      h("span", { class: "kind" }, itemKind(state.recording, item)),
      h("span", { class: "grow" }),
      tool("previous", "previous with this name in this row ([)", "\u2039 previous", () => void selection.selectSameName(-1)),
      tool("next", "next with this name in this row (])", "next \u203a", () => void selection.selectSameName(1)),
      showName && item.line.kind === Kind.Slice && tool("code", "flame graph of what ran in all slices of this name", "Flame graph", () => showName(item.value)),
      tool("note", "write a note about it (b)", "Add note", addNote),
      tool("zoom", "zoom to it (f)", "Zoom to it", () => navigation.showSelection()),
    );
  }

  /** What is known of any item without reading more. */
  private common(): void {
    const { item, facts } = this;
    const { recording, origin } = this.parts.state;
    const { index } = recording;
    // Only slices and instants have a name in their value (data/value.ts).
    const name = item.line.kind === Kind.Slice || item.line.kind === Kind.Instant ? nameOf(item.value) : -1;
    if (item.line.kind !== Kind.Instant && item.line.kind !== Kind.Counter) fact(facts, "Duration", duration(item.end - item.start));
    fact(facts, "Start", instant(item.start - origin));
    const place = index.places[String(name)];
    if (place) fact(facts, "Place", place);
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
    const { recording } = this.parts.state;
    const label = threadLabel(recording, thread);
    const [states] = linesOf(recording, Kind.State, thread);
    return states ? link(label, () => this.goToThread(thread, t)) : label;
  }

  /** Selects the state that a thread was in at `t`. */
  private goToThread(thread: number, t: number): void {
    const { recording } = this.parts.state;
    const [states] = linesOf(recording, Kind.State, thread);
    if (states) void itemAt(recording, states, t).then((item) => item && this.goTo(item));
  }

  /** A slice: its own time, where it is nested, its task and arguments, how it compares with others of its name, and why it took so long. */
  private async slice(): Promise<void> {
    const { item, facts } = this;
    const { recording } = this.parts.state;
    // The writer's totals for this name; the histogram needs no item.
    const row = recording.index.names.find((row) => encodeNamed(row.name, row.kind) === item.value);
    const found = await sliceDetails(recording, item, this.cancelled);
    if (this.cancelled()) return;
    fact(facts, "Self time", `${duration(found.self)} (${percent(found.self, item.end - item.start)})`);
    if (found.enclosing.length > 0) {
      const path = found.enclosing.flatMap((above, i) => [...(i > 0 ? [" \u203a "] : []), link(itemTitle(recording, above), () => this.goTo(above))]);
      fact(facts, "Inside", h("span", {}, ...path));
    }
    // The file stores 1 + the row; 0 is none.
    const object = found.object > 0 ? recording.index.objects[found.object - 1] : undefined;
    if (object !== undefined) fact(facts, kindOf(item.value) >= SliceKind.LockWait ? "Lock" : "Object", object);
    if (found.task > 0) await taskFacts(this.parts, facts, found.task - 1, this.cancelled);
    // Its length is then only what was seen of it.
    if (found.open & 1) fact(facts, "Note", "its beginning was not seen");
    if (found.open & 2) fact(facts, "Note", "its end was not seen");
    this.args(found.args);
    // Why it took so long comes first, though it is known last.
    const why = h("div", { class: "side" });
    this.sides.append(why);
    if (found.share?.states.some((ns) => ns > 0)) this.side(this.shares(found.share, item.end - item.start));
    if (row) this.side(histogram(this.parts, row, item));
    const patience = new Patience(this.cancelled);
    const [states] = linesOf(recording, Kind.State, item.line.owner);
    const waits = states && (await waitsOf(recording, states, item.start, item.end, patience));
    const process = recording.index.threads[item.line.owner]?.process ?? -1;
    // Who held the lock is a question only for a slice that waits for one.
    const held = object !== undefined && kindOf(item.value) === SliceKind.LockWait ? await holders(recording, object, process, item.start, item.end, patience) : [];
    if (this.cancelled()) return;
    fill(why, held.length > 0 && this.blames("Who held the lock meanwhile", held, "held"), waits && this.waits(waits));
  }

  /** What the scheduler did during a slice: a bar, a table, and the CPUs that it ran on. */
  private shares(share: StateShare, length: number): HTMLElement {
    const { dark } = this.parts.state.theme;
    const states = share.states.map((ns, state) => ({ ns, state })).filter(({ ns }) => ns > 0).sort((a, b) => b.ns - a.ns);
    const shares = states.map(({ ns, state }) => ({ colour: css(stateColour(state, dark)), name: STATE_NAMES[state] ?? "", ns, percent: percent(ns, length) }));
    const rows = states.map(({ ns, state }) => [swatched(css(stateColour(state, dark)), STATE_NAMES[state] ?? ""), duration(ns), percent(ns, length)]);
    const cpus = [...share.cpus].filter(([, ns]) => ns > 0).sort((a, b) => b[1] - a[1]).map(([cpu, ns]) => `CPU ${cpu} ${duration(ns)}`);
    return h(
      "div",
      {},
      h("h3", {}, "What the scheduler did meanwhile"),
      shareBar(shares, length),
      table({ columns: [{ text: "state" }, { text: "time", number: true }, { text: "share", number: true }], rows }),
      cpus.length > 0 && h("p", { class: "muted" }, `ran on ${cpus.slice(0, 6).join(", ")}${cpus.length > 6 ? ", ..." : ""}; preempted ${share.preempted}\u00d7, moved ${share.migrated}\u00d7`),
    );
  }

  /** Nothing to say when it never waited. */
  private waits(waits: Waits): HTMLElement | null {
    const parts = [
      waits.wakers.length > 0 && this.blames("Who ended its waits", waits.wakers, "waited"),
      waits.preemptors.length > 0 && this.blames("Who took its CPU", waits.preemptors, "off CPU"),
      waits.queued && h("p", { class: "muted" }, `ready but without a CPU: ${duration(waits.queued.total)} in ${waits.queued.count} wake-ups, the longest `, this.stateLink(waits.queued)),
      waits.open > 0 && h("p", { class: "muted" }, `${duration(waits.open)} of waiting had not ended yet`),
    ];
    return parts.some(Boolean) ? h("div", {}, ...parts) : null;
  }

  /** Links to the longest wait of a row. */
  private stateLink(blame: Blame): HTMLElement {
    const { item } = this;
    const { recording } = this.parts.state;
    // An item of a lock's row belongs to a thread, whose number plus one is its value.
    const owner = item.line.kind === Kind.Lock ? item.value - 1 : item.line.owner;
    return link(duration(blame.longest), () => {
      const [states] = linesOf(recording, Kind.State, owner);
      // The middle of the wait: its ends belong to the neighbouring states too.
      if (states) void itemAt(recording, states, blame.start + blame.longest / 2).then((found) => found && this.goTo(found));
    });
  }

  /** A table of threads that are answerable for a wait, the worst first; `what` names the time. */
  private blames(caption: string, rows: Blame[], what: string): HTMLElement {
    const { recording } = this.parts.state;
    const cells = rows.slice(0, 6).map((row): Cell[] => {
      const name = row.thread < 0 ? "an interrupt, or not known" : threadLabel(recording, row.thread);
      const longest: Cell = { value: row.longest, text: duration(row.longest), node: this.stateLink(row) };
      return [
        row.thread < 0 ? name : { value: name, text: name, node: this.threadLink(row.thread, row.start + row.longest) as HTMLElement },
        row.count,
        { value: row.total, text: duration(row.total) },
        longest,
      ];
    });
    return h(
      "div",
      {},
      h("h3", {}, caption),
      table({ columns: [{ text: "thread" }, { text: "times", number: true }, { text: what, number: true }, { text: "longest", number: true }], rows: cells }),
      rows.length > 6 && h("p", { class: "muted" }, `and ${rows.length - 6} more`),
    );
  }

  /** A thread's state: who woke or preempted it, and what came before and after. */
  private async state(): Promise<void> {
    const { item, facts } = this;
    const { recording } = this.parts.state;
    const found = await stateDetails(recording, item);
    if (this.cancelled()) return;
    // Of a thread without a CPU, the kernel names the CPU in whose queue it stands, or the one that it ran on last.
    if (found.cpu >= 0) fact(facts, item.value === State.Running ? "CPU" : item.value === State.Woken || item.value === State.Preempted ? "Queue of CPU" : "Last CPU", String(found.cpu));
    const by = found.by >= 0 ? this.threadLink(found.by, item.start) : "an interrupt, or not known";
    if (item.value === State.Woken) fact(facts, "Woken by", by);
    if (item.value === State.Preempted) fact(facts, "Preempted by", found.by >= 0 ? by : "not known");
    for (const [label, other] of [["Before", found.previous], ["After", found.next]] as const) {
      if (other) fact(facts, label, link(`${itemTitle(recording, other)}, ${duration(other.end - other.start)}`, () => this.goTo(other)));
    }
    const code = await codeOf(this.parts.state, this.parts.callPaths, item, (item.start + item.end) / 2, 20, (thread, t) => this.goToThread(thread, t));
    if (!this.cancelled() && code.length > 0) this.side(h("div", { class: "stack" }, h("h3", {}, item.value === State.Running ? "The sample nearest to its middle" : "Why and where it waited"), ...code));
  }

  /** An item of a lock's rows: the slice behind it, and the lock's holds and waits, each by itself. */
  private async lock(): Promise<void> {
    const { item, facts } = this;
    const { recording } = this.parts.state;
    const { index } = recording;
    const lock = index.locks[item.line.owner];
    if (!lock) return;
    fact(facts, "Lock", `${lockName(recording, item.line.owner)} (${lock.object})`);
    const slice = await sliceOfLock(recording, item);
    if (this.cancelled()) return;
    if (slice) fact(facts, "In its thread", link("show the slice", () => this.goTo(slice)));
    // Holds and waits in rows of their own: their sum would mean nothing.
    const numbers = [["holds", lock.holds, lock.hold_ns], ["waits", lock.waits, lock.wait_ns]] as const;
    const rows = numbers.map(([what, n, ns]): Cell[] => [what, n, { value: ns, text: duration(ns) }, { value: n > 0 ? ns / n : 0, text: n > 0 ? duration(ns / n) : "-" }]);
    this.side(h("div", {}, h("h3", {}, "All of this lock"), table({ columns: [{ text: "" }, { text: "count", number: true }, { text: "total", number: true }, { text: "mean", number: true }], rows })));
    // Lanes of waits come after those of holds.
    if (item.line.depth >= lock.hold_lanes) {
      const held = await holders(recording, lock.object, lock.process, item.start, item.end, new Patience(this.cancelled));
      if (!this.cancelled() && held.length > 0) this.side(this.blames("Who held the lock meanwhile", held, "held"));
    }
    if (lock.unshown > 0) fact(facts, "Not drawn", `${lock.unshown} that overlapped too many others`);
  }

  /** The arguments that the program annotated, in its order. */
  private args(args: Argument[]): void {
    // A text is a row of the index's strings; numbers are shown as they are.
    for (const { name, value } of args) fact(this.facts, this.parts.state.recording.text(name), typeof value === "object" ? this.parts.state.recording.text(value.text) : String(value));
  }
}
