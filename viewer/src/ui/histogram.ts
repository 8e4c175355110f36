// All slices of a name by duration, with the longest one click away.
import { bars, binsOf, longestOf, quantile, type Bin } from "../data/histogram";
import { Kind, SliceKind, type NameRow } from "../data/index";
import { encodeNamed } from "../data/value";
import type { Item } from "../data/query";
import { css } from "../draw/palette";
import { count, duration } from "../view/units";
import { threadLabel } from "./describe";
import { h, svg } from "./dom";
import type { Search } from "./search";
import type { Selection } from "./selection";
import type { ViewState } from "./state";

// CSS pixels: the picture, the highest bar, and below it the line of labels.
const WIDTH = 360;
const HEIGHT = 84;
const BASE = 16;

/** A lock's waits and holds have one name: the title says which of them these are. */
const TITLES: Partial<Record<number, string>> = { [SliceKind.LockWait]: "All waits for this lock's name, by duration", [SliceKind.LockHold]: "All holds of this lock's name, by duration" };

/** What the histogram's bars and links use. */
export interface HistogramParts {
  state: ViewState;
  selection: Selection;
  search: Search;
}

/** The histogram with quantiles and outliers; `selected` marks its bin. A single slice has no distribution. */
export function histogram(parts: HistogramParts, row: NameRow, selected?: Item): HTMLElement {
  const bins = binsOf(row);
  const p50 = quantile(bins, 0.5);
  const p99 = quantile(bins, 0.99);
  const facts = h(
    "p",
    { class: "muted quantiles" },
    `${count(row.count)} ${row.kind === SliceKind.LockWait ? "waits" : row.kind === SliceKind.LockHold ? "holds" : "slices"} \u00b7 half are under ${duration(p50)}, 99 % under ${duration(p99)} \u00b7 mean ${duration(row.total / row.count)}`,
  );
  return h("div", {}, h("h3", {}, TITLES[row.kind] ?? "All of this name, by duration"), row.count > 1 ? picture(parts, row, bins, selected) : null, facts, outliers(parts, row, p50, selected));
}

/** The bars. Each is a button: it leads to the next slice of its durations. */
function picture({ state, search }: HistogramParts, row: NameRow, bins: Bin[], selected: Item | undefined): Node {
  const drawn = bars(bins, 60);
  const most = Math.max(...drawn.map((bar) => bar.count));
  const step = WIDTH / drawn.length;
  // A name's waits and its holds are different values: only slices of this row's kind are counted.
  const own = encodeNamed(row.name, row.kind);
  const colour = css(state.colours.of(Kind.Slice, own));
  const length = selected ? selected.end - selected.start : -1;
  const label = `histogram of ${count(row.count)} durations from ${duration(drawn[0]!.from)} to ${duration(row.max)}`;
  const chart = svg("svg", { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT + BASE}`, width: WIDTH, height: HEIGHT + BASE, role: "group", "aria-label": label });
  drawn.forEach((bar, i) => {
    if (bar.count === 0) return;
    // A bin with a single slice among a million is still seen: the square root lifts the small ones, a foot of 3 px the smallest.
    const height = 3 + (HEIGHT - 5) * Math.sqrt(bar.count / most);
    const here = length >= bar.from && length < bar.to;
    const what = `${count(bar.count)} of ${duration(bar.from)} to ${duration(bar.to)}`;
    const go = (): void => void search.stepTo((value, ns) => value === own && ns >= bar.from && ns < bar.to, 1);
    const rect = svg(
      "rect",
      { x: i * step + 0.5, y: HEIGHT - height, width: Math.max(1, step - 1), height, fill: colour, class: here ? "bin here" : "bin", tabindex: 0, role: "button", "aria-label": `go to one of ${what}`, onclick: go, onkeydown: (event: KeyboardEvent) => event.key === "Enter" && go() },
      svg("title", {}, `${what}; click to go to the next one`),
    );
    chart.append(rect);
  });
  chart.append(
    svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT + 0.5, y2: HEIGHT + 0.5, class: "axis" }),
    svg("text", { x: 0, y: HEIGHT + 13, class: "tick" }, duration(drawn[0]!.from)),
    svg("text", { x: WIDTH / 2, y: HEIGHT + 13, class: "tick", "text-anchor": "middle" }, "log scale"),
    svg("text", { x: WIDTH, y: HEIGHT + 13, class: "tick", "text-anchor": "end" }, duration(row.max)),
  );
  return chart;
}

/** The longest slices; how often the median they are says whether they are outliers. */
function outliers({ state, selection }: HistogramParts, row: NameRow, p50: number, selected: Item | undefined): HTMLElement {
  const links = longestOf(row).map(({ line, item, start, ns }) => {
    const owner = state.recording.lines[line]?.owner ?? -1;
    const times = p50 > 0 && row.count > 2 ? ` ${(ns / p50).toFixed(ns / p50 >= 10 ? 0 : 1)}\u00d7` : "";
    const current = selected?.line.ix === line && selected.item === item;
    const title = `in ${threadLabel(state.recording, owner)} at ${duration(start - state.origin)}${times === "" ? "" : `, ${times.trim()} the median`}`;
    return h("button", { type: "button", class: current ? "chip here" : "chip", title, onclick: () => void selection.selectNumber(line, item) }, duration(ns), times !== "" && h("span", { class: "muted" }, times));
  });
  return h("div", { class: "chips" }, h("span", { class: "muted" }, row.count > 1 ? "Longest" : "The only one"), ...links);
}
