// What changed from one recording to another: the tab that both views of a pair have.
import type { Account, Sums } from "../data/account";
import { Kind, SLICE_KINDS, type AccountRow, type NameRow } from "../data/index";
import type { Recording } from "../data/recording";
import { encodeNamed } from "../data/value";
import { classColour, classOrder, css } from "../draw/palette";
import { count, duration, percent } from "../view/units";
import { fill, h } from "./dom";
import { lifeOf } from "./life";
import type { Selection } from "./selection";
import type { ViewState } from "./state";
import { table, type Cell } from "./table";
import { shareBar, swatched } from "./widgets";

/** One of the two recordings, and how to select in its view. */
export interface Side {
  state: ViewState;
  selection: Selection;
  account: Account;
}

/** What people call the recording: its file's name, or the command. */
export function labelOf({ index }: Recording): string {
  return index.label || index.title;
}

/** What must be equal for two rows to be of the same thing: a lock's waits are not its holds. */
function keyOf(recording: Recording, row: NameRow): string {
  return `${row.kind} ${recording.text(row.name)}`;
}

/** Names that both have, those with most time first. */
export function commonNames(a: Recording, b: Recording): [NameRow, NameRow][] {
  const ofB = new Map(b.index.names.map((row) => [keyOf(b, row), row]));
  const pairs = a.index.names.flatMap((row): [NameRow, NameRow][] => {
    const other = ofB.get(keyOf(a, row));
    return other ? [[row, other]] : [];
  });
  return pairs.sort((x, y) => Math.max(y[0].total, y[1].total) - Math.max(x[0].total, x[1].total));
}

/** Lives in one view's panel; both views' panels have one. */
export class CompareTab {
  private readonly accounts = h("div", {});
  private run = 0;

  constructor(private readonly sides: readonly [Side, Side]) {}

  open(): HTMLElement {
    const [a, b] = this.sides;
    const [ra, rb] = [a.state.recording, b.state.recording];
    const [la, lb] = [lengthOf(ra), lengthOf(rb)];
    void this.update();
    return h(
      "div",
      { class: "summary" },
      h("p", {}, h("strong", {}, `A ${labelOf(ra)}`), ` ${duration(la)}, `, h("strong", {}, `B ${labelOf(rb)}`), ` ${duration(lb)}: B took `, h("strong", {}, factor(la, lb)), " as long."),
      this.accounts,
      h("p", { class: "muted" }, "A time leads to the longest slice of that name in its chart."),
      namesTable(a, b),
    );
  }

  /** Adds up what is in view in both charts. */
  async update(): Promise<void> {
    const run = ++this.run;
    const cancelled = (): boolean => run !== this.run;
    const views = await Promise.all(
      this.sides.map(async ({ state, account }) => {
        const t0 = Math.max(0, state.view.t0);
        const t1 = Math.min(state.recording.length, state.view.t1);
        return { sums: await account.sums(t0, t1, undefined, cancelled), length: t1 - t0 };
      }),
    );
    const [a, b] = views.map(({ sums, length }) => (sums && length > 0 && sums.capacity > 0 ? { sums, length } : undefined));
    if (!cancelled()) fill(this.accounts, a && b && accountsTable(this.sides, [a, b]));
  }
}

/** How long the program lived, ns. */
function lengthOf(recording: Recording): number {
  const [t0, t1] = lifeOf(recording);
  return t1 - t0;
}

/** An account and the time it is of. */
interface Totals {
  sums: Sums;
  length: number;
}

/** The accounts side by side. Classes are matched by key: another version's file may number them otherwise. */
function accountsTable(sides: readonly [Side, Side], totals: [Totals, Totals]): HTMLElement {
  const [a, b] = sides.map(({ state }) => state.recording.index.account!.classes) as [AccountRow["classes"], AccountRow["classes"]];
  const { dark } = sides[0].state.theme;
  const keys = [...new Set([...a, ...b].map(([key]) => key))];
  // CPU time of a class on one side in ns, and as a number of CPUs, by which runs of different length can be compared.
  const ns = (side: 0 | 1, key: string): number => totals[side].sums.classes[[a, b][side]!.findIndex(([k]) => k === key)] ?? 0;
  const cpus = (side: 0 | 1, key: string): number => ns(side, key) / totals[side].length;
  const shown = classOrder(keys).map((k) => keys[k]!).filter((key) => ns(0, key) + ns(1, key) > 0);
  const name = (key: string): string => [...a, ...b].find(([k]) => k === key)![1];
  const colour = (key: string): string => css(classColour(key, dark));
  const share = (side: 0 | 1, key: string): string => percent(ns(side, key), totals[side].sums.capacity);
  const bars = ([0, 1] as const).map((side) => {
    const shares = shown.map((key) => ({ colour: colour(key), name: name(key), ns: ns(side, key), percent: share(side, key) }));
    return h("div", { class: "labelled-bar" }, h("strong", {}, side === 0 ? "A" : "B"), shareBar(shares, totals[side].sums.capacity, true));
  });
  const rows = shown.map((key): Cell[] => {
    const change = cpus(1, key) - cpus(0, key);
    return [
      swatched(colour(key), name(key)),
      ...([0, 1] as const).flatMap((side): Cell[] => [{ value: ns(side, key), text: duration(ns(side, key)) }, { value: cpus(side, key), text: cpus(side, key).toFixed(2) }, { value: ns(side, key), text: share(side, key) }]),
      { value: change, text: `${change >= 0.005 ? "+" : ""}${Math.abs(change) < 0.005 ? "0.00" : change.toFixed(2)}` },
    ];
  });
  const numbers = ["time A", "CPUs A", "share A", "time B", "CPUs B", "share B", "CPUs B \u2212 A"];
  return h("div", {}, h("h2", { class: "sub" }, "Accounts of what is in view"), ...bars, table({ columns: [{ text: "class" }, ...numbers.map((text) => ({ text, number: true }))], rows }));
}

/** B over A, as in "1.20 times as long". */
function factor(a: number, b: number): string {
  return `${(b / Math.max(1, a)).toFixed(2)}\u00d7`;
}

/** Names of both first, then those of one only, which are new or gone. */
function namesTable(a: Side, b: Side): HTMLElement {
  const [ra, rb] = [a.state.recording, b.state.recording];
  const common = commonNames(ra, rb);
  const seen = new Set(common.map(([row]) => keyOf(ra, row)));
  const rows = [
    ...common.map(([x, y]) => nameRow(a, b, x, y)),
    ...ra.index.names.filter((x) => !seen.has(keyOf(ra, x))).map((x) => nameRow(a, b, x, undefined)),
    ...rb.index.names.filter((y) => !seen.has(keyOf(rb, y))).map((y) => nameRow(a, b, undefined, y)),
  ];
  const numbers = ["count A", "count B", "total A", "total B", "B / A", "mean A", "mean B", "longest A", "longest B"];
  return table({ columns: [{ text: "name" }, ...numbers.map((text) => ({ text, number: true }))], rows, sortBy: 3 });
}

/** A name's row: `x` of the first recording, `y` of the second; one of them may be missing. */
function nameRow(a: Side, b: Side, x: NameRow | undefined, y: NameRow | undefined): Cell[] {
  const time = ({ selection }: Side, row: NameRow | undefined, ns: (row: NameRow) => number): Cell => {
    if (!row) return { value: -1, text: "\u2013" };
    return { value: ns(row), text: duration(ns(row)), go: () => void selection.selectNumber(row.line, row.item) };
  };
  // A name that only B has is described by B's strings and colours.
  const [owner, own] = x ? [a.state, x] : [b.state, y!];
  const change = x && y ? y.total / Math.max(1, x.total) : 0;
  return [
    swatched(css(owner.colours.of(Kind.Slice, encodeNamed(own.name, own.kind))), owner.recording.text(own.name), SLICE_KINDS[own.kind]),
    { value: x?.count ?? 0, text: count(x?.count ?? 0) },
    { value: y?.count ?? 0, text: count(y?.count ?? 0) },
    time(a, x, (row) => row.total),
    time(b, y, (row) => row.total),
    { value: change, text: x && y ? factor(x.total, y.total) : x ? "gone" : "new" },
    time(a, x, (row) => row.total / row.count),
    time(b, y, (row) => row.total / row.count),
    time(a, x, (row) => row.max),
    time(b, y, (row) => row.max),
  ];
}
