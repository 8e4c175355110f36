// The answer in short: the account's sentence, what to try, then facts and tables, in words. `kasuri stat --json` has all of it
// for programs; here only what a person reads, and nothing that a tab of its own shows.
import type { Summary } from "../data/index";
import { classColour, classOrder, css } from "../draw/palette";
import { count, duration, percent } from "../view/units";
import { h } from "./dom";
import type { Selection } from "./selection";
import type { ViewState } from "./state";
import { programNote } from "./program";
import { table, type Cell, type Column } from "./table";
import { fact, shareBar } from "./widgets";

/** Rows of a table here; the exports have all. */
const MOST_ROWS = 30;

/** The tab that a report opens with. */
export function summaryTab(state: ViewState, selection: Selection): HTMLElement {
  const { index } = state.recording;
  const summary = index.summary ?? {};
  return h("div", { class: "summary" }, headline(index.headline), programNote(state), accountBar(state, summary), hints(summary), facts(summary), tables(state, selection, summary));
}

function headline(text: string | undefined): HTMLElement | false {
  return text !== undefined && text !== "" && h("p", { class: "headline" }, h("strong", {}, `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`));
}

/** The whole recording's account in one bar; the Account tab has the numbers of any part. */
function accountBar({ recording, theme }: ViewState, { account }: Summary): HTMLElement | false {
  const classes = recording.index.account?.classes;
  if (!account || !classes) return false;
  // The summary has the sums by key, the index the classes with their names: the order is that of the chart's stack.
  const ns = new Map(account.classes.map((sum) => [sum.class, sum.ns]));
  const shown = classOrder(classes.map(([key]) => key)).map((c) => classes[c]!).filter(([key]) => (ns.get(key) ?? 0) > 0);
  const shares = shown.map(([key, name]) => ({ colour: css(classColour(key, theme.dark)), name, ns: ns.get(key)!, percent: percent(ns.get(key)!, account.capacity_ns) }));
  return shares.length > 0 && shareBar(shares, account.capacity_ns, true);
}

/** Commands are text to copy: a page can start none. */
function hints({ hints }: Summary): HTMLElement | false {
  if (!hints || hints.length === 0) return false;
  const items = hints.map(({ text, command }) => h("li", {}, text, command !== null && h("pre", {}, command)));
  return h("div", {}, h("h2", { class: "sub" }, "What to try, most to gain first"), h("ol", { class: "hints" }, ...items));
}

/** What is not known is left out, not shown as 0. */
function facts(s: Summary): HTMLElement {
  const list = h("dl", { class: "facts-list wide" });
  const add = (name: string, text: string | undefined): void => {
    if (text !== undefined) fact(list, name, text);
  };
  add("Wall time", s.wall_ns === undefined ? undefined : duration(s.wall_ns));
  // `cpu_use` is a share of all CPUs, 0 to 1.
  if (typeof s.cpu_use === "number") add("CPU use", s.n_cpus === undefined ? percent(s.cpu_use, 1) : `${(s.cpu_use * s.n_cpus).toFixed(2)} of ${s.n_cpus} CPUs busy (${percent(s.cpu_use, 1)}), ran on ${s.cpus_used ?? 0}`);
  if (s.cpu_time) add("CPU time", `${duration(s.cpu_time.kernel_ns)} by the kernel's own count; the events show ${duration(s.cpu_time.seen_ns)}`);
  if (s.known?.switches === true) add("Switches", `${count(s.switches ?? 0)}, ${count(s.preemptions ?? 0)} of them preemptions; ${count(s.migrations ?? 0)} moves to another CPU`);
  const latency = s.wake_latency_ns;
  if (latency) add("Wake-ups", `${count(s.wakeups ?? 0)}; running again after ${duration(latency.p50)} (half), ${duration(latency.p99)} (99 %), ${duration(latency.max)} (the longest)`);
  if (s.tasks && s.tasks.count > 0) add("Tasks", `${count(s.tasks.count)}, ${count(s.tasks.moved)} carried on by another thread`);
  add("Events", s.n_kernel_events === undefined ? undefined : `${count(s.n_kernel_events)} of the kernel, ${count(s.n_annotation_events ?? 0)} of the program`);
  if (s.tracing) add("Tracing", `cost the program ${percent(s.tracing.share, 1)} of its CPU time (${duration(s.tracing.cost_ns)}); the recorder took ${duration(s.tracing.recorder_cpu_ns)} beside it`);
  if (s.losses) add("Lost", s.losses.length === 0 ? "nothing" : `${count(s.losses.reduce((sum, loss) => sum + loss.count, 0))} events`);
  return list;
}

/** A table of some rows of the summary, each as cells; none without rows. */
function section<T>(caption: string, columns: Column[], rows: T[] | undefined, cells: (row: T) => Cell[]): HTMLElement | false {
  if (!rows || rows.length === 0) return false;
  const text = rows.length > MOST_ROWS ? `${caption}, the first ${MOST_ROWS} of ${count(rows.length)}` : caption;
  return table({ caption: text, columns, rows: rows.slice(0, MOST_ROWS).map(cells) });
}

const text = (name: string): Column => ({ text: name });
const number = (name: string): Column => ({ text: name, number: true });
const time = (ns: number): Cell => ({ value: ns, text: duration(ns) });

function tables({ recording }: ViewState, selection: Selection, s: Summary): HTMLElement {
  /** A thread's name, leading to its row. */
  const thread = (tid: number, name: string): Cell => {
    const label = name === "" ? String(tid) : `${name} (${tid})`;
    // The summary names threads by TID: it was made without the index. Of a TID that was used twice, the first is meant.
    const at = recording.index.threads.findIndex((row) => row.tid === tid);
    return { value: label, text: label, ...(at >= 0 && { go: () => selection.follow({ thread: at }) }) };
  };
  return h(
    "div",
    { class: "columns tables" },
    section("Load imbalance", [text("region"), number("threads"), number("times"), number("imbalance"), number("CPU time lost"), text("slowest")], s.imbalance, (row) => [
      row.name,
      row.threads,
      row.instances,
      { value: row.imbalance, text: percent(row.imbalance, 1) },
      time(row.cost_ns),
      row.worst_tid === null ? "" : thread(row.worst_tid, row.worst_thread),
    ]),
    section("CPUs at work, by region", [text("region"), number("open"), number("CPUs")], s.known?.switches === true ? s.account?.regions : undefined, (row) => [row.name, time(row.wall_ns), { value: row.got_cpus, text: row.got_cpus.toFixed(2) }]),
  );
}
