// The account of a part of the recording: where its CPU time went, and what caused the losses.
import { classColour, classOrder, css } from "../draw/palette";
import type { Sums } from "../data/account";
import { duration, percent } from "../view/units";
import type { App } from "./app";
import { threadLabel } from "./describe";
import { append, fill, h } from "./dom";
import { swatched } from "./item";
import { table, type Cell } from "./table";

/** Causes shown; the rest is summed up by class anyway. */
const CAUSES = 40;

/** What the account is of: the marked area, the selected item's time, or what is in view. */
export function subject(app: App): { t0: number; t1: number; cpus: Set<number> | undefined; text: string } {
  const { area, selected, view, recording } = app;
  const cpus = app.accountCpus();
  const clamp = (t: number): number => Math.min(Math.max(t, 0), recording.length);
  const [t0, t1, text] = area
    ? [area.t0, area.t1, "the marked area"]
    : selected && selected.end > selected.start
      ? [selected.start, selected.end, "the selected item's time"]
      : [view.t0, view.t1, "what is in view"];
  return { t0: clamp(t0), t1: clamp(t1), cpus, text };
}

export class AccountTab {
  readonly box = h("div", { class: "details" });
  private run = 0;

  constructor(private readonly app: App) {}

  async update(): Promise<void> {
    const run = ++this.run;
    const { t0, t1, cpus, text } = subject(this.app);
    const sums = await this.app.account.sums(t0, t1, cpus, () => run !== this.run);
    if (!sums || run !== this.run) return;
    const which = cpus ? `CPU ${[...cpus].join(", ")}` : `all ${sums.cpus} CPUs`;
    fill(
      this.box,
      h("div", { class: "heading" }, h("h2", {}, `Account of ${text}`), h("span", { class: "kind" }, `${duration(t1 - t0)} on ${which}`)),
      ...accountParts(this.app, sums, t1 - t0),
    );
  }
}

export function accountParts(app: App, sums: Sums, length: number): HTMLElement[] {
  const { index } = app.recording;
  const { account } = index;
  if (!account || sums.capacity <= 0) return [h("p", { class: "muted" }, "Nothing was recorded of the CPUs here.")];
  const { dark } = app.theme;
  const used = classOrder(account.classes.map(([key]) => key)).filter((c) => sums.classes[c]! > 0);
  const useful = used.reduce((sum, c) => sum + (account.classes[c]![3] ? sums.classes[c]! : 0), 0);
  const cpus = (ns: number): string => (ns / Math.max(1, length)).toFixed(2);
  const bar = h("div", { class: "share-bar wide", role: "img", "aria-label": used.map((c) => `${account.classes[c]![1]} ${percent(sums.classes[c]!, sums.capacity)}`).join(", ") });
  append(bar, used.map((c) => h("i", { style: `width:${(100 * sums.classes[c]!) / sums.capacity}%;--c:${css(classColour(account.classes[c]![0], dark))}`, title: `${account.classes[c]![1]} ${percent(sums.classes[c]!, sums.capacity)}` })));
  const rows = used.map((c): Cell[] => [
    swatched(css(classColour(account.classes[c]![0], dark)), account.classes[c]![1]),
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
    const go = cause.thread >= 0 ? () => app.go({ thread: cause.thread }) : cause.object !== "" && index.locks.some((lock) => lock.object === cause.object) ? () => app.go({ lock: cause.object }) : undefined;
    const text = causeText(app, cause);
    return [swatched(css(classColour(account.classes[cause.class]![0], dark)), account.classes[cause.class]![1]), { value: text, text, ...(go && { go }) }, { value: ns, text: duration(ns) }, { value: ns, text: cpus(ns) }];
  });
  return [
    h("p", { class: "headline" }, h("strong", {}, `${cpus(useful)} of ${cpus(sums.capacity)} CPUs`), ` did the program's own work (${percent(useful, sums.capacity)}).`),
    bar,
    h(
      "div",
      { class: "columns tables" },
      table({ caption: "Where the CPU time went", columns: [{ text: "class" }, { text: "CPU time", number: true }, { text: "CPUs", number: true }, { text: "share", number: true }, { text: "meaning" }], rows }),
      causes.length > 0 && table({ caption: `What it was lost to${losses.length > CAUSES ? `, the ${CAUSES} largest of ${losses.length}` : ""}`, columns: [{ text: "class" }, { text: "cause" }, { text: "CPU time", number: true }, { text: "CPUs", number: true }], rows: causes, sortBy: 2 }),
    ),
  ];
}

const NOTES: Record<string, string> = {
  serial_phase: "one thread ran alone",
  few_threads: "fewer threads than CPUs",
  not_started: "before the program began",
  ended: "after the program ended",
  wake_up: "being woken",
  placement: "queued at another CPU",
  interrupt: "ended by an interrupt: a timer, a device, the network, or a time limit",
  process: "ended by another process",
  endless: "did not end in this recording",
  stopped: "stopped",
  lost: "events are missing",
  late_thread: "the last thread had been kept off its CPU",
  idle_worker: "the task runtime had nothing to run",
};

function causeText(app: App, cause: NonNullable<App["recording"]["index"]["account"]>["causes"][number]): string {
  const { recording } = app;
  const process = recording.index.processes[cause.process];
  const processName = process ? recording.text(process.name) : "";
  const name = cause.name >= 0 ? recording.text(cause.name) : cause.object;
  const parts = [
    name === processName ? "" : name,
    NOTES[cause.note] ?? "",
    process ? `${processName} (${process.pid})` : "",
    cause.thread >= 0 ? `${cause.class === 5 ? "last: " : ""}${threadLabel(recording, cause.thread)}` : "",
    cause.code >= 0 ? `in ${recording.text(cause.code)}` : "",
    cause.on_cpu && cause.class === 4 ? "spinning" : "",
  ];
  return parts.filter((part) => part !== "").join(", ") || "\u2013";
}
