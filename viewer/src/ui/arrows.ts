// Which arrows show: kinds for all that is in view, and always those of what is selected.
import { ARROW_KINDS, fitting, MAX_ARROWS, TASKS_AT_ONCE, type Arrow, type ArrowKind } from "../data/arrow";
import { cell, SliceColumn } from "../data/columns";
import { linesOf } from "../data/details";
import { Flows } from "../data/flows";
import { Kind, SliceKind } from "../data/index";
import type { Item } from "../data/query";
import { stolen, type Tasks, type TaskTable } from "../data/tasks";
import { kindOf } from "../data/value";
import { creations, moves, wakeups } from "../draw/arrows";
import { visibleTracks } from "../draw/scene";
import type { ViewState } from "./state";

export class Arrows {
  /** Arrows in view that were not drawn, because there were too many. */
  tooMany = false;
  private readonly flows: Flows;
  /** More has been read: another frame may have more arrows. */
  private readonly later = (): void => this.state.redraw();

  constructor(
    private readonly state: ViewState,
    private readonly tasks: TaskTable,
  ) {
    this.flows = new Flows(state.recording);
  }

  set(kind: ArrowKind, on: boolean): void {
    if (on) this.state.arrowKinds.add(kind);
    else this.state.arrowKinds.delete(kind);
    this.state.arrowsChanged.emit();
    this.state.changed();
  }

  /** Shows all kinds, or none when all show. */
  toggle(): void {
    const possible = this.possible();
    const on = possible.some((kind) => !this.state.arrowKinds.has(kind));
    for (const kind of possible) this.set(kind, on);
  }

  /** Kinds of arrows that this recording can have. */
  possible(): ArrowKind[] {
    const { index, lines } = this.state.recording;
    const states = lines.some((line) => line.kind === Kind.State);
    const has: Record<ArrowKind, boolean> = { wake: states, flow: index.n_flows > 0, create: index.n_tasks > 0, steal: index.n_tasks > 0 };
    return ARROW_KINDS.filter((kind) => has[kind]);
  }

  /** Those shown until the person chooses. */
  usual(): ArrowKind[] {
    const { n_tasks } = this.state.recording.index;
    return n_tasks > 0 && n_tasks <= TASKS_AT_ONCE ? ["steal"] : [];
  }

  /** What the next frame draws. */
  inView(): Arrow[] {
    const { selected } = this.state;
    const arrows = [...this.ofKinds(), ...(selected ? this.ofItem(selected) : [])];
    this.tooMany = arrows.length > MAX_ARROWS;
    return fitting(arrows);
  }

  /** Arrows of the chosen kinds, between the threads whose rows are on the screen. */
  private ofKinds(): Arrow[] {
    const { recording, view, arrowKinds } = this.state;
    const arrows: Arrow[] = [];
    if (arrowKinds.size === 0) return arrows;
    const threads = visibleTracks(this.state).filter(({ track }) => track.kind === "thread");
    if (arrowKinds.has("wake")) {
      for (const { track } of threads) {
        const states = track.rows.find((row) => row.line.kind === Kind.State);
        if (states) wakeups(recording, states.line, view, arrows);
      }
    }
    if (arrowKinds.has("flow")) this.flows.between(view.t0, view.t1, arrows, this.later);
    const tasks = arrowKinds.has("steal") || arrowKinds.has("create") ? this.tasks.peek(this.later) : undefined;
    if (!tasks) return arrows;
    const kindOfTask = (i: number): "create" | "steal" | undefined => {
      const kind = stolen(tasks, i) ? "steal" : "create";
      return arrowKinds.has(kind) ? kind : undefined;
    };
    creations(tasks, view, kindOfTask, arrows);
    const lines = threads.flatMap(({ track }) => track.rows.filter((row) => row.line.kind === Kind.Slice).map((row) => row.line));
    if (arrowKinds.has("steal")) moves(recording, lines, view, arrows);
    return arrows;
  }

  /** Arrows of the selected item, which show whatever kinds are chosen. */
  private ofItem(item: Item): Arrow[] {
    const { recording, view } = this.state;
    const { kind, owner } = item.line;
    if (kind !== Kind.State && kind !== Kind.Slice && kind !== Kind.Instant) return [];
    const arrows: Arrow[] = [];
    const [states] = linesOf(recording, Kind.State, owner);
    // A selected state shows its own wake-up, a selected slice those inside it.
    const within = { ...view, t0: Math.max(view.t0, item.start), t1: Math.min(view.t1, item.end) };
    if (states && within.t0 <= within.t1) wakeups(recording, states, within, arrows);
    this.flows.between(view.t0, view.t1, arrows, this.later, owner);
    const tasks = kind === Kind.Slice ? this.tasks.peek(this.later) : undefined;
    if (tasks && kindOf(item.value) === SliceKind.TaskRun) this.ofTask(item, tasks, arrows);
    for (const arrow of arrows) arrow.strong = arrow.to >= item.start && arrow.from <= item.end;
    return arrows;
  }

  /** The creation of the task that `item` runs, and those of its children. */
  private ofTask(item: Item, tasks: Tasks, arrows: Arrow[]): void {
    const task = cell(item.unit, SliceColumn.Task, item.i) - 1;
    creations(tasks, this.state.view, (i) => (i === task || tasks.parent[i] === task ? "create" : undefined), arrows);
  }
}
