// The task table, read when first wanted: a million tasks are 30 MB that most people never ask for.
import { columnBytes, numbers, words } from "./columns";
import type { UnitRow } from "./index";
import type { Recording } from "./recording";

/** A column each; references are -1 and times NaN where nothing is known. */
export interface Tasks {
  n: number;
  id: Float64Array;
  /** Row of the index's strings. */
  name: Int32Array;
  /** Row of this table: the task that created this one. */
  parent: Int32Array;
  /** Row of the index's threads: the one that created it. */
  creator: Int32Array;
  /** ns on the file's axis. */
  created: Float64Array;
  started: Float64Array;
  ended: Float64Array;
  /** Who ran it first, and how long it ran in all. */
  runner: Int32Array;
  ran: Float64Array;
}

// In the file 0 is "not known" and everything else is stored plus one.
const reference = (column: Uint32Array): Int32Array => Int32Array.from(column, (value) => value - 1);
const time = (column: Float64Array): Float64Array => column.map((value) => (value === 0 ? NaN : value - 1));

/** Reads the table when it is first asked for, and only once. */
export class TaskTable {
  private coming: Promise<Tasks> | undefined;
  private table: Tasks | undefined;

  constructor(private readonly recording: Recording) {}

  /** The table when it was read; asks for it, and calls `later` when it is there. */
  peek(later: () => void): Tasks | undefined {
    if (!this.table && !this.coming && this.recording.index.n_tasks > 0) void this.read().then(later, console.error);
    return this.table;
  }

  read(): Promise<Tasks> {
    this.coming ??= this.load();
    return this.coming;
  }

  private async load(): Promise<Tasks> {
    const n = this.recording.index.n_tasks;
    const table: Tasks = {
      n,
      id: new Float64Array(n),
      name: new Int32Array(n),
      parent: new Int32Array(n),
      creator: new Int32Array(n),
      created: new Float64Array(n),
      started: new Float64Array(n),
      ended: new Float64Array(n),
      runner: new Int32Array(n),
      ran: new Float64Array(n),
    };
    let row = 0;
    for (const unit of this.recording.index.tasks) {
      await this.unit(table, row, unit);
      row += unit[2];
    }
    this.table = table;
    return table;
  }

  /** Decodes one unit into the table's rows from `row` on. Column 1, the process, is its threads' process too. */
  private async unit(table: Tasks, row: number, [block, part, n]: UnitRow): Promise<void> {
    const { bytes, offset } = await this.recording.part(block, part);
    const at: number[] = [];
    for (let c = 0, next = offset; c < 10; c++) {
      at.push(next);
      next += columnBytes(bytes, next, n);
    }
    table.id.set(numbers(bytes, at[0]!, n), row);
    table.name.set(reference(words(bytes, at[2]!, n)), row);
    table.parent.set(reference(words(bytes, at[3]!, n)), row);
    table.creator.set(reference(words(bytes, at[4]!, n)), row);
    table.created.set(time(numbers(bytes, at[5]!, n)), row);
    table.started.set(time(numbers(bytes, at[6]!, n)), row);
    table.ended.set(time(numbers(bytes, at[7]!, n)), row);
    table.runner.set(reference(words(bytes, at[8]!, n)), row);
    table.ran.set(numbers(bytes, at[9]!, n), row);
  }
}

/** Created by one thread and first run by another. */
export function stolen(tasks: Tasks, i: number): boolean {
  return tasks.creator[i]! >= 0 && tasks.runner[i]! >= 0 && tasks.creator[i] !== tasks.runner[i];
}

/** Totals of the tasks of one name. */
export interface NameOfTasks {
  name: number;
  count: number;
  ran: number;
  /** ns from creation to first run: sum, longest and whose. */
  waited: number;
  waitedMost: number;
  waitedMostTask: number;
  stolen: number;
  unfinished: number;
}

/** In order of appearance; a table sorts them. */
export function byName(tasks: Tasks): NameOfTasks[] {
  const rows = new Map<number, NameOfTasks>();
  for (let i = 0; i < tasks.n; i++) {
    const name = tasks.name[i]!;
    const row = rows.get(name) ?? { name, count: 0, ran: 0, waited: 0, waitedMost: -1, waitedMostTask: i, stolen: 0, unfinished: 0 };
    row.count++;
    row.ran += tasks.ran[i]!;
    const waited = tasks.started[i]! - tasks.created[i]!;
    // NaN where it never ran: then this comparison is false, and so is the next.
    if (waited >= 0) row.waited += waited;
    if (waited > row.waitedMost) [row.waitedMost, row.waitedMostTask] = [waited, i];
    if (stolen(tasks, i)) row.stolen++;
    if (Number.isNaN(tasks.ended[i])) row.unfinished++;
    rows.set(name, row);
  }
  return [...rows.values()];
}
