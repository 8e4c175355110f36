// The search box's state: what is looked for, and stepping from match to match.
import { next, parseQuery, search, wantedBy, type Wanted } from "../data/search";
import type { Selection } from "./selection";
import { Signal } from "./signal";
import type { ViewState } from "./state";

export class Search {
  /** What was typed. */
  text = "";
  /** A match is being looked for, or no longer. */
  readonly busy = new Signal<boolean>();
  private run = 0;

  constructor(
    private readonly state: ViewState,
    private readonly selection: Selection,
  ) {}

  set(text: string): void {
    if (text === this.text) return;
    this.text = text;
    const query = parseQuery(text);
    this.state.found = query && search(this.state.recording.index, query);
    this.state.foundChanged.emit();
    this.state.changed();
  }

  async step(direction: 1 | -1): Promise<void> {
    const { found } = this.state;
    if (!found || found.query.error !== undefined) return;
    await this.stepTo(wantedBy(found), direction);
  }

  /** Selects the next (or previous) slice that is wanted, after the selected one or the view's edge; past the last comes the first. */
  async stepTo(wanted: Wanted, direction: 1 | -1): Promise<void> {
    const run = ++this.run;
    const cancelled = (): boolean => run !== this.run;
    const { recording, selected, view } = this.state;
    // Without a selection the search begins at the view's edge; at its left one a slice that starts there counts.
    const edge = direction === 1 ? { start: view.t0 - 1, line: 0 } : { start: view.t1, line: 0 };
    const from = selected ? { start: selected.start, line: selected.line.ix } : edge;
    const farEnd = direction === 1 ? { start: -1, line: -1 } : { start: Infinity, line: Infinity };
    this.busy.emit(true);
    let item = await next(recording, wanted, from, direction, cancelled);
    item ??= await next(recording, wanted, farEnd, direction, cancelled);
    if (cancelled()) return;
    this.busy.emit(false);
    if (item) this.selection.goTo(item);
  }
}
