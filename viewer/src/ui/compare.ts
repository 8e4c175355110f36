// What changed from one recording to another: the tab that both views of a pair have.
import { Kind, type NameRow } from "../data/index";
import type { Recording } from "../data/recording";
import { encodeNamed } from "../data/value";
import { css } from "../draw/palette";
import { count, duration } from "../view/units";
import { h } from "./dom";
import { lifeOf } from "./life";
import type { Selection } from "./selection";
import type { ViewState } from "./state";
import { table, type Cell } from "./table";
import { swatched } from "./widgets";

/** One of the two recordings, and how to select in its view. */
export interface Side {
  state: ViewState;
  selection: Selection;
}

export function labelOf({ index }: Recording): string {
  return index.label || index.title;
}

/** Names that both have, those with most time first. */
export function commonNames(a: Recording, b: Recording): [NameRow, NameRow][] {
  const ofB = new Map(b.index.names.map((row) => [b.text(row.name), row]));
  const pairs = a.index.names.flatMap((row): [NameRow, NameRow][] => {
    const other = ofB.get(a.text(row.name));
    return other ? [[row, other]] : [];
  });
  return pairs.sort((x, y) => Math.max(y[0].total, y[1].total) - Math.max(x[0].total, x[1].total));
}

export function compareTab([a, b]: [Side, Side]): HTMLElement {
  const [ra, rb] = [a.state.recording, b.state.recording];
  const [la, lb] = [ra, rb].map((recording) => {
    const [t0, t1] = lifeOf(recording);
    return t1 - t0;
  }) as [number, number];
  return h(
    "div",
    {},
    h("p", {}, h("strong", {}, `A ${labelOf(ra)}`), ` ${duration(la)}, `, h("strong", {}, `B ${labelOf(rb)}`), ` ${duration(lb)}: B took `, h("strong", {}, factor(la, lb)), " as long. A time leads to the longest slice of that name in its chart."),
    namesTable(a, b),
  );
}

function factor(a: number, b: number): string {
  return `${(b / Math.max(1, a)).toFixed(2)}\u00d7`;
}

function namesTable(a: Side, b: Side): HTMLElement {
  const [ra, rb] = [a.state.recording, b.state.recording];
  const common = commonNames(ra, rb);
  const seen = new Set(common.map(([row]) => ra.text(row.name)));
  const rows = [
    ...common.map(([x, y]) => nameRow(a, b, x, y)),
    ...ra.index.names.filter((x) => !seen.has(ra.text(x.name))).map((x) => nameRow(a, b, x, undefined)),
    ...rb.index.names.filter((y) => !seen.has(rb.text(y.name))).map((y) => nameRow(a, b, undefined, y)),
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
  const [owner, own] = x ? [a.state, x] : [b.state, y!];
  const change = x && y ? y.total / Math.max(1, x.total) : 0;
  return [
    swatched(css(owner.colours.of(Kind.Slice, encodeNamed(own.name, own.kind))), owner.recording.text(own.name)),
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
