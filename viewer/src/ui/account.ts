// The account of a part of the recording: where its CPU time went, and what caused the losses.
import { classColour, classOrder, css } from "../draw/palette";
import type { Account, Sums } from "../data/account";
import type { AccountRow } from "../data/index";
import { trackAtCanvas } from "../draw/scene";
import { duration, percent } from "../view/units";
import { nsPerPixel, timeAt } from "../view/viewport";
import { fill, h } from "./dom";
import type { Selection } from "./selection";
import type { ViewState } from "./state";
import { chosenCpus, subjectOf } from "./subject";
import { table, type Cell } from "./table";
import { shareBar, swatch, swatched } from "./widgets";

/** Causes shown; the rest is summed up by class anyway. */
const CAUSES = 40;

/** Leads to the code behind a class, by its number; undefined: no samples say anything of it. */
export type ShowLoss = ((loss: number) => void) | undefined;

/** The tab with the account of what is asked for: it follows the view and the selection. */
export class AccountTab {
  private readonly box = h("div", { class: "details" });
  private run = 0;

  constructor(
    private readonly state: ViewState,
    private readonly account: Account,
    private readonly selection: Selection,
    private readonly showLoss: ShowLoss,
  ) {}

  /** The tab's element; what it shows is being worked out. */
  open(): HTMLElement {
    void this.update();
    return this.box;
  }

  /** Adds up what is asked for now. A later call ends an earlier one: while the view moves only the last result counts. */
  async update(): Promise<void> {
    const run = ++this.run;
    const { t0, t1, cpus, text } = subjectOf(this.state);
    const sums = await this.account.sums(t0, t1, cpus, () => run !== this.run);
    if (!sums || run !== this.run) return;
    const which = cpus ? `CPU ${[...cpus].join(", ")}` : `all ${sums.cpus} CPUs`;
    fill(
      this.box,
      h("div", { class: "heading" }, h("h2", {}, `Account of ${text}`), h("span", { class: "kind" }, `${duration(t1 - t0)} on ${which}`)),
      ...accountParts(this.state, this.selection, sums, t1 - t0, this.showLoss),
    );
  }
}

/**
 * The account in words, as a bar and as tables; the tab and the details of an area show the same.
 * `length` is the time that `sums` are of, in ns: divided by it, CPU time becomes a number of CPUs.
 */
export function accountParts(state: ViewState, selection: Selection, sums: Sums, length: number, showLoss: ShowLoss): HTMLElement[] {
  const { index } = state.recording;
  const { account } = index;
  if (!account || sums.capacity <= 0) return [h("p", { class: "muted" }, "Nothing was recorded of the CPUs here.")];
  const { dark } = state.theme;
  const used = classOrder(account.classes.map(([key]) => key)).filter((c) => sums.classes[c]! > 0);
  const useful = used.reduce((sum, c) => sum + (account.classes[c]![3] ? sums.classes[c]! : 0), 0);
  const cpus = (ns: number): string => (ns / Math.max(1, length)).toFixed(2);
  const shares = used.map((c) => ({ colour: css(classColour(account.classes[c]![0], dark)), name: account.classes[c]![1], ns: sums.classes[c]!, percent: percent(sums.classes[c]!, sums.capacity) }));
  const rows = used.map((c): Cell[] => [
    { ...swatched(css(classColour(account.classes[c]![0], dark)), account.classes[c]![1]), ...(showLoss && account.classes[c]![4] && { go: () => showLoss(c) }) },
    { value: sums.classes[c]!, text: duration(sums.classes[c]!) },
    { value: sums.classes[c]!, text: cpus(sums.classes[c]!) },
    { value: sums.classes[c]!, text: percent(sums.classes[c]!, sums.capacity) },
    account.classes[c]![2],
  ]);
  const losses = [...sums.causes]
    .map((ns, i) => ({ ns, cause: account.causes[i]! }))
    .filter(({ ns, cause }) => ns > 0 && !account.classes[cause.class]![3])
    .sort((a, b) => b.ns - a.ns);
  const causes = losses.slice(0, CAUSES).map(({ ns, cause }): Cell[] => {
    const go = cause.thread >= 0 ? () => selection.follow({ thread: cause.thread }) : cause.object !== "" && index.locks.some((lock) => lock.object === cause.object) ? () => selection.follow({ lock: cause.object }) : undefined;
    return [swatched(css(classColour(account.classes[cause.class]![0], dark)), account.classes[cause.class]![1]), { value: cause.text, text: cause.text, ...(go && { go }) }, { value: ns, text: duration(ns) }, { value: ns, text: cpus(ns) }];
  });
  return [
    h("p", { class: "headline" }, h("strong", {}, `${cpus(useful)} of ${cpus(sums.capacity)} CPUs`), ` did the program's own work (${percent(useful, sums.capacity)}).`),
    shareBar(shares, sums.capacity, true),
    h(
      "div",
      { class: "columns tables" },
      table({ caption: "Where the CPU time went", columns: [{ text: "class", ...(showLoss && { help: "A class leads to the flame graph of the code behind it" }) }, { text: "CPU time", number: true }, { text: "CPUs", number: true }, { text: "share", number: true }, { text: "meaning" }], rows }),
      causes.length > 0 && table({ caption: `What it was lost to${losses.length > CAUSES ? `, the ${CAUSES} largest of ${losses.length}` : ""}`, columns: [{ text: "class" }, { text: "cause" }, { text: "CPU time", number: true }, { text: "CPUs", number: true }], rows: causes, sortBy: 2 }),
    ),
    ...waitParts(account, used, dark),
  ];
}

/** The largest waits of each class that is there, with what they waited for: of the whole recording. */
function waitParts(account: AccountRow, used: number[], dark: boolean): HTMLElement[] {
  const waits = account.waits.filter(([c]) => used.includes(c));
  if (waits.length === 0) return [];
  const parts = waits.flatMap(([c, lines]) => [
    h("div", { class: "stack-title" }, swatch(css(classColour(account.classes[c]![0], dark)), account.classes[c]![1])),
    h("pre", { class: "waits" }, lines.join("\n")),
  ]);
  return [h("section", { class: "wait-chains" }, h("h3", {}, "What threads waited for, in the whole recording"), ...parts)];
}

/** Lines of the waits of a class shown there. */
const LINES_AT = 5;
/** Classes shown for one place: the smallest shares are no more than a pixel. */
const CLASSES_AT = 8;

/** What the account says at a place of its row, largest share first; undefined elsewhere. */
export function accountAt(state: ViewState, account: Account, x: number, y: number): HTMLElement[] | undefined {
  const { recording, view, theme } = state;
  const classes = recording.index.account?.classes;
  if (!classes || trackAtCanvas(state, y)?.track.kind !== "account") return undefined;
  const t = timeAt(view, x);
  const cpus = chosenCpus(state);
  const n = cpus?.size ?? account.lines.length;
  const { shares } = account.shares(t, t + nsPerPixel(view), 1, cpus);
  const rows = [...shares].map((share, c) => ({ share, c })).filter(({ share }) => share > 0.002).sort((a, b) => b.share - a.share);
  const lines = rows.slice(0, CLASSES_AT).map(({ share, c }) => swatch(css(classColour(classes[c]![0], theme.dark)), classes[c]![1], "", `${(share * n).toFixed(2)} of ${n} CPUs`));
  // The largest loss whose waits are known, with the first of them.
  const waits = rows.flatMap(({ c }) => recording.index.account!.waits.filter(([of]) => of === c))[0];
  if (!waits) return lines;
  const [c, all] = waits;
  // A wait begins with its share, the lines that belong to it with none.
  const second = all.findIndex((line, i) => i > 0 && /^[<>]?\d/.test(line));
  const first = all.slice(0, second < 0 ? undefined : second).slice(0, LINES_AT);
  return [...lines, h("div", { class: "stack-title" }, `${classes[c]![1]}, most in the whole recording`), ...first.map((line) => h("div", { class: "stack-line chain" }, line))];
}
