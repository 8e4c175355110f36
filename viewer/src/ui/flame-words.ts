// What a flame graph says in words: about all that it shows, about one box, and about the change of one.
import { CODE_KINDS, type CallPaths, type CodeFunction } from "../data/call-paths";
import { addUpLoss, type CpuPieces } from "../data/pieces";
import { addUp, byFunction, matched, Weights, type Box, type CodeTimes, type Side } from "../data/flame";
import { pointsOf, sharesByFunction } from "../data/flame-diff";
import type { Recording } from "../data/recording";
import { boxName, type Narrow, type PlacedBox } from "../draw/flame";
import { CHANGE_STEPS, changeColour, codeColour, css } from "../draw/palette";
import { shortName } from "../view/code-name";
import { count, duration, percent } from "../view/units";
import type { CodeSubject } from "./code-subject";
import { h } from "./dom";
import { placeOf } from "./stack";
import { table, type Cell } from "./table";
import { swatch, swatched } from "./widgets";

/** Which time: of threads that ran, that waited, or both side by side. */
export type Sort = "running" | "waiting" | "both";

/** Everything that was added up for one subject. */
export interface Sums {
  recording: Recording;
  paths: CallPaths;
  subject: CodeSubject;
  times: CodeTimes;
  running: Weights;
  waiting: Weights;
  /** Of a class's time, ns that no code was there for. */
  without: number;
}

/** `pieces` are wanted where the subject is a class of the account. */
export function sumsOf(recording: Recording, paths: CallPaths, subject: CodeSubject, pieces: readonly CpuPieces[] | undefined): Sums {
  const { times, without } = subject.loss && pieces ? addUpLoss(paths, pieces, subject.loss) : { times: addUp(paths, subject.query), without: 0 };
  return { recording, paths, subject, times, without, running: new Weights(paths, times.running, times.runningLost), waiting: new Weights(paths, times.waiting, times.waitingLost) };
}

/** What is shown: one subject, or `base` (A) and `sums` (B) compared. */
export interface Shown {
  sums: Sums;
  base: Sums | undefined;
  sort: Sort;
  dark: boolean;
}

export function weightsOf(sums: Sums, sort: Sort): Weights[] {
  return sort === "both" ? [sums.running, sums.waiting] : [sums[sort]];
}

/** ns of what is shown of one subject. */
export function totalOf(sums: Sums, sort: Sort): number {
  return weightsOf(sums, sort).reduce((sum, weights) => sum + weights.sum, 0);
}

/** The line above the boxes: how much time, from how many samples, how much of it is whole, how much is not known. */
export function factsOf(sums: Sums, sort: Sort): (string | HTMLElement | false)[] {
  const { subject, times, running, waiting } = sums;
  if (subject.loss) return lossFacts(sums);
  const runs = sort !== "waiting";
  const waits = sort !== "running";
  const sampled = (runs ? running.sum : 0) + (waits ? waiting.sum : 0);
  const complete = (runs ? times.runningComplete : 0) + (waits ? times.complete - times.runningComplete : 0);
  const unsampled = (runs ? times.runningUnsampled : 0) + (waits ? times.waitingUnsampled : 0);
  const samples = (runs ? times.runningSamples : 0) + (waits ? times.samples - times.runningSamples : 0);
  const what = [...(runs ? [`${duration(running.sum)} on CPU`] : []), ...(waits ? [`${duration(waiting.sum)} waiting`] : [])].join(", ");
  return [
    h("strong", {}, subject.text),
    `: ${what}, from ${count(samples)} sample${samples === 1 ? "" : "s"}`,
    sampled > 0 && `; ${percent(complete, sampled)} of this time has a complete stack`,
    unsampled > 0 && `; besides, ${duration(unsampled)} (${percent(unsampled, unsampled + sampled)} of all) unsampled`,
  ];
}

/** The same of a class: its parts add up to its CPU time. */
function lossFacts({ subject, times, running, without }: Sums): (string | HTMLElement | false)[] {
  const all = running.sum + times.runningUnsampled + without;
  return [
    h("strong", {}, subject.text),
    `: ${duration(all)} of CPU time, ${duration(running.sum)} with a call path`,
    running.sum > 0 && `; ${percent(times.complete, running.sum)} of this time has a complete stack`,
    times.runningUnsampled > 0 && `; besides, ${duration(times.runningUnsampled)} (${percent(times.runningUnsampled, all)} of all) unsampled`,
    without > 0 && `; for ${duration(without)} (${percent(without, all)}) there was no code to sample`,
  ];
}

/** Why there are no boxes. */
export function emptyText({ sums, base, sort }: Shown): string {
  if (sums.subject.loss) return sums.without + sums.times.runningUnsampled > 0 ? "No sample explains this time." : "There is no time of this class here.";
  const other = sort === "running" ? sums.waiting.sum + (base?.waiting.sum ?? 0) : sums.running.sum + (base?.running.sum ?? 0);
  if (other === 0) return "No sample was taken here.";
  return sort === "running" ? "No thread was sampled on a CPU here; Waiting shows where they waited." : "No wait was sampled here; On CPU shows what ran.";
}

/** `+3.2 points`, of a difference of shares. */
function points(change: number): string {
  return `${change >= 0.05 ? "+" : ""}${Math.abs(change) < 0.05 ? "0" : change.toFixed(1)} points`;
}

/** How a part of the time changed, in words. */
export function changeText(sides: readonly [Side, Side], sums: readonly [number, number]): string {
  const change = pointsOf(sides);
  const [a, b] = sides.map(({ total }, i) => `${percent(total, 1)} (${duration(total * sums[i]!)})`) as [string, string];
  const [inA, inB] = sides.map(({ total }) => total > 0) as [boolean, boolean];
  if (!inA) return `only in B: ${b}`;
  if (!inB) return `only in A: ${a}`;
  const what = Math.abs(change) < 0.05 ? "as much of the time in B as in A" : `${Math.abs(change).toFixed(1)} points ${change > 0 ? "more" : "less"} of the time in B`;
  return `${what}: ${b} in B, ${a} in A`;
}

/** The time of a box, or its change: `1.2 s, 60 % of what is shown, 0.1 s in itself`. */
export function timeText({ sums, base, sort }: Shown, box: Box, ofCallees: boolean): string {
  if (box.sides && base) return changeText(box.sides, [totalOf(base, sort), totalOf(sums, sort)]);
  const self = box.fn >= 0 && ofCallees ? `, ${duration(box.self)} (${percent(box.self, box.total)}) in itself` : "";
  return `${duration(box.total)}, ${percent(box.total, totalOf(sums, sort))} of what is shown${self}`;
}

/** Where in the source the time of a box is, most first: its place and its share of the box; of a comparison those in B, else those in A. */
export function placesOf({ sums, base }: Shown, box: Box): { place: string; share: string }[] {
  const b = box.sides ? box.sides[1].box : box;
  const [of, from] = b ? [b, sums] : [box.sides?.[0].box, base];
  if (!of?.weights || !from) return [];
  const lines = of.weights.lines(of.nodes).map(({ frame, ns }) => ({ place: placeOf(from.recording, from.paths, frame), share: percent(ns, of.total) }));
  return lines.filter(({ place }) => place !== "");
}

/** What the tool tip says of a box. */
export function boxLines(shown: Shown, what: PlacedBox | Narrow, ofCallees: boolean): HTMLElement[] {
  const { functions } = shown.sums.paths;
  if (!("box" in what)) return [h("div", {}, `${count(what.boxes)} functions, too narrow to be drawn: ${shown.base ? percent(what.ns, 1) : duration(what.ns)}; a click on what is above zooms`)];
  const { box } = what;
  const lines = [h("strong", {}, boxName(box, functions)), h("div", {}, timeText(shown, box, ofCallees))];
  const fn = functions[box.fn];
  if (!fn) return lines;
  lines.push(swatch(css(codeColour(fn.kind, shown.dark)), CODE_KINDS[fn.kind] ?? "", "", fn.module));
  for (const { place, share } of placesOf(shown, box).slice(0, 3)) lines.push(h("div", { class: "muted" }, `${place} ${share}`));
  return lines;
}

/** What part of the time is in functions that are looked for, as words. */
export function shareText({ sums, base, sort }: Shown, matches: Uint8Array): string {
  const of = (side: Sums): { share: string; ns: string } => {
    const ns = weightsOf(side, sort).reduce((sum, weights) => sum + matched(weights, matches), 0);
    return { share: percent(ns, totalOf(side, sort)), ns: duration(ns) };
  };
  const b = of(sums);
  if (!base) return `${b.share} of the time (${b.ns}) is in what matches`;
  const a = of(base);
  return `${b.share} of the time in B (${b.ns}) and ${a.share} in A (${a.ns}) is in what matches`;
}

/** What colours mean: kinds of code, or changes. */
export function flameLegend({ sums, base, dark }: Shown, same: string): HTMLElement[] {
  if (!base) return [...new Set(sums.paths.functions.map(({ kind }) => kind))].sort((a, b) => a - b).map((kind) => swatch(css(codeColour(kind, dark)), CODE_KINDS[kind] ?? ""));
  // A colour is of changes from here to the next.
  return CHANGE_STEPS.map((step) => {
    const colour = changeColour(step, dark);
    if (colour === undefined) return swatch(same, "about the same");
    return swatch(css(colour), `${Math.abs(step)}+ points ${step > 0 ? "more" : "less"}`);
  });
}

/** The functions of what is shown as a table; `go` leads to a function's callers and callees. */
export function functionTable(shown: Shown, matches: Uint8Array | undefined, go: (fn: number) => void): HTMLElement {
  const { sums, base, sort, dark } = shown;
  const { functions } = sums.paths;
  const wanted = ({ fn }: { fn: number }): boolean => matches?.[fn] !== 0;
  if (base) return changeTable(shown, base, wanted, go);
  const all = totalOf(sums, sort);
  const rows = weightsOf(sums, sort).flatMap((weights) =>
    byFunction(weights, functions.length)
      .filter(wanted)
      .map(({ fn, self, total }): Cell[] => {
        const time = (ns: number): Cell[] => [{ value: ns, text: duration(ns) }, { value: ns, text: percent(ns, all) }];
        return [nameCell(functions[fn]!, css(codeColour(functions[fn]!.kind, dark)), () => go(fn)), ...time(self), ...time(total), functions[fn]!.module];
      }),
  );
  const columns = [{ text: "function" }, { text: "itself", number: true }, { text: "share", number: true }, { text: "with callees", number: true }, { text: "share", number: true }, { text: "module" }];
  return table({ columns, rows, sortBy: 1 });
}

function nameCell(fn: CodeFunction, colour: string, go: () => void): Cell {
  return { ...swatched(colour, shortName(fn.name)), go };
}

/** The largest changes first, whether more or less. */
function changeTable({ sums, sort, dark }: Shown, base: Sums, wanted: (row: { fn: number }) => boolean, go: (fn: number) => void): HTMLElement {
  const { functions } = sums.paths;
  const [a, b] = [weightsOf(base, sort), weightsOf(sums, sort)];
  const rows = b.flatMap((weights, i) =>
    sharesByFunction(a[i]!, weights, functions.length)
      .filter(wanted)
      .map(({ fn, self, total }): Cell[] => {
        const shares = ([a, b]: readonly [number, number]): Cell[] => [{ value: a, text: percent(a, 1) }, { value: b, text: percent(b, 1) }, { value: 100 * Math.abs(b - a), text: points(100 * (b - a)) }];
        const colour = changeColour(100 * (self[1] - self[0]), dark);
        return [nameCell(functions[fn]!, colour === undefined ? "transparent" : css(colour), () => go(fn)), ...shares(self), ...shares(total), functions[fn]!.module];
      }),
  );
  const columns = [{ text: "function" }, ...["itself in A", "in B", "change", "with callees in A", "in B", "change"].map((text) => ({ text, number: true })), { text: "module" }];
  return table({ columns, rows, sortBy: 3 });
}
