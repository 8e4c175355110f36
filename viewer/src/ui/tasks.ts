// Tasks: totals by name, and what is known of one.
import { linesOf } from "../data/details";
import { Kind, SliceKind } from "../data/index";
import { itemAt } from "../data/query";
import { kindOf } from "../data/value";
import { byName, stolen, type Tasks, type TaskTable } from "../data/tasks";
import { count, duration, percent } from "../view/units";
import { threadLabel } from "./describe";
import { fill, h } from "./dom";
import type { Selection } from "./selection";
import type { ViewState } from "./state";
import { table, type Cell } from "./table";
import * as widgets from "./widgets";

/** What the tab and the details of a task use. */
export interface TaskParts {
  state: ViewState;
  selection: Selection;
  tasks: TaskTable;
}

export function tasksTab(parts: TaskParts): HTMLElement {
  const box = h("div", {}, h("p", { class: "muted" }, "Reading the tasks..."));
  void parts.tasks.read().then((tasks) => fill(box, ...content(parts, tasks)), (error: unknown) => fill(box, h("p", { class: "failed" }, String(error))));
  return box;
}

/** Totals by name. Arrows and steals are explained here: the tab is where one asks what they are. */
function content(parts: TaskParts, tasks: Tasks): HTMLElement[] {
  const { recording } = parts.state;
  const names = byName(tasks);
  const rows = names.map((row): Cell[] => [
    recording.text(row.name) || "(no name)",
    row.count,
    { value: row.ran, text: duration(row.ran) },
    { value: row.ran / row.count, text: duration(row.ran / row.count) },
    { value: row.waited / row.count, text: duration(row.waited / row.count) },
    row.waitedMost < 0 ? "\u2013" : { value: row.waitedMost, text: duration(row.waitedMost), go: () => void goToTask(parts, tasks, row.waitedMostTask) },
    { value: row.stolen, text: `${count(row.stolen)} (${percent(row.stolen, row.count)})` },
    row.unfinished,
  ]);
  const helps: Record<string, string> = { waited: "mean time from creation to the first run", "waited longest": "the task that waited longest for a worker", "run elsewhere": "first run by another thread than its creator: a steal" };
  const numbers = ["tasks", "ran", "mean", "waited", "waited longest", "run elsewhere", "unfinished"];
  // Summed from the rows, so that the sentence above the table cannot disagree with it.
  const steals = names.reduce((sum, row) => sum + row.stolen, 0);
  return [
    h("p", { class: "muted" }, `${count(tasks.n)} tasks, ${count(steals)} first run by another thread than their creator. Red arrows are steals: these, and tasks suspended by one thread and carried on by another; click a task's run for its creation, its parent and its children.`),
    table({ columns: [{ text: "name" }, ...numbers.map((text) => ({ text, number: true, help: helps[text] ?? "" }))], rows, sortBy: 2 }),
  ];
}

/** Selects the first run of task `i`. */
async function goToTask({ state, selection }: TaskParts, tasks: Tasks, i: number): Promise<void> {
  const t = tasks.started[i]!;
  for (const line of linesOf(state.recording, Kind.Slice, tasks.runner[i]!)) {
    const item = await itemAt(state.recording, line, t);
    if (item?.start === t && kindOf(item.value) === SliceKind.TaskRun) {
      selection.goTo(item);
      return;
    }
  }
}

/** Adds what is known of task `i` to `facts`. */
export async function taskFacts(parts: TaskParts, facts: HTMLElement, i: number, cancelled: () => boolean): Promise<void> {
  const tasks = await parts.tasks.read();
  if (cancelled() || i >= tasks.n) return;
  const { recording } = parts.state;
  const fact = (name: string, value: HTMLElement | string): void => widgets.fact(facts, name, value);
  const link = (task: number, text: string): HTMLElement => widgets.link(text, () => void goToTask(parts, tasks, task));
  const name = (task: number): string => `${recording.text(tasks.name[task]!) || "task"} #${tasks.id[task]}`;
  fact("Task", `${name(i)}, ran ${duration(tasks.ran[i]!)} in all`);
  if (tasks.creator[i]! >= 0) {
    const waited = tasks.started[i]! - tasks.created[i]!;
    fact("Created by", `${threadLabel(recording, tasks.creator[i]!)}${waited >= 0 ? `, ${duration(waited)} before it first ran` : ""}`);
  }
  if (stolen(tasks, i)) fact("First run by", `${threadLabel(recording, tasks.runner[i]!)} (another thread: stolen)`);
  if (tasks.parent[i]! >= 0) fact("Parent", link(tasks.parent[i]!, name(tasks.parent[i]!)));
  const children: number[] = [];
  // A pass over all tasks, for one click now and then: an index by parent would have to be kept.
  for (let c = 0; c < tasks.n; c++) if (tasks.parent[c] === i) children.push(c);
  if (children.length > 0) {
    const longest = children.reduce((a, b) => (tasks.ran[b]! > tasks.ran[a]! ? b : a));
    fact("Children", h("span", {}, `${count(children.length)}, the longest `, link(longest, `${name(longest)} (${duration(tasks.ran[longest]!)})`)));
  }
}
