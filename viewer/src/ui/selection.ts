// What is selected: an item or an area; and the ways to select another.
import { occurrence } from "../data/details";
import { Kind, type Go } from "../data/index";
import { itemNumber, longestBetween, type Item } from "../data/query";
import type { Line } from "../data/recording";
import { trackAtCanvas, visibleTracks } from "../draw/scene";
import { rowAt } from "../view/layout";
import { duration } from "../view/units";
import { nsPerPixel, timeAt } from "../view/viewport";
import { itemKind, itemTitle, ownerLabel } from "./describe";
import type { Navigation } from "./navigation";
import type { Rows } from "./rows";
import type { ViewState } from "./state";

/** Items narrower than this many pixels are zoomed to when one goes to them. */
const NARROW = 4;

/** At most one item or one area is selected; whoever shows it listens to `selectionChanged`. */
export class Selection {
  constructor(
    private readonly state: ViewState,
    private readonly rows: Rows,
    private readonly navigation: Navigation,
  ) {}

  clear(): void {
    this.set(undefined, undefined);
  }

  select(item: Item): void {
    const { recording, origin } = this.state;
    const parts = [itemTitle(recording, item), itemKind(recording, item), duration(item.end - item.start), ownerLabel(recording, item.line)];
    this.state.said.emit(`${parts.join(", ")}, at ${duration(item.start - origin)}`);
    this.set(item, undefined);
  }

  /** Selects `item` and brings it into view. */
  goTo(item: Item): void {
    this.select(item);
    this.rows.reveal(item.line);
    const { view } = this.state;
    const width = view.t1 - view.t0;
    const length = item.end - item.start;
    const narrow = length / nsPerPixel(view) < NARROW;
    if (item.start >= view.t0 && item.end <= view.t1 && !narrow) return;
    if (length >= width || narrow) this.navigation.showFitted(item.start, item.end, 0.25);
    else this.navigation.showAround(item.start);
  }

  /** Selects the tracks between `y0` and `y1` of the canvas. */
  selectArea(t0: number, t1: number, y0: number, y1: number): void {
    const covered = visibleTracks(this.state).filter(({ track, y }) => y < y1 && y + track.height > y0);
    const tracks = covered.map(({ track }) => track.id);
    this.state.rubber = undefined;
    this.state.said.emit(`area of ${duration(t1 - t0)} and ${tracks.length} rows`);
    this.set(undefined, { t0, t1, tracks });
  }

  /** The one place that changes the selection. */
  private set(selected: ViewState["selected"], area: ViewState["area"]): void {
    this.state.selected = selected;
    this.state.area = area;
    this.state.selectionChanged.emit();
    this.state.changed();
  }

  /** Selects the item of the next row below (1) or above (-1) at the same time; without a selection, the first in view. */
  async selectRow(by: 1 | -1): Promise<void> {
    const { selected, view, layout, recording } = this.state;
    const lines = [...layout.pinned, ...layout.tracks].flatMap((track) => track.rows.map((row) => row.line));
    const middle = (view.t0 + view.t1) / 2;
    const inView = selected && selected.end >= view.t0 && selected.start <= view.t1;
    const t = inView ? Math.min(Math.max((selected.start + selected.end) / 2, view.t0), view.t1) : middle;
    const first = visibleTracks(this.state).find(({ track }) => track.rows.length > 0)?.track.rows[0]?.line;
    let at = selected ? lines.indexOf(selected.line) + by : lines.indexOf(first ?? lines[0]!);
    for (; at >= 0 && at < lines.length; at += by) {
      const line = lines[at]!;
      const found = (await longestBetween(recording, line, t, t)) ?? (await longestBetween(recording, line, view.t0, view.t1));
      if (!found) continue;
      this.select(found.item);
      this.rows.reveal(line);
      return;
    }
  }

  /** Selects the item before (-1) or after (1) the selected one in its row. */
  async selectNeighbour(by: 1 | -1): Promise<void> {
    const { selected, recording } = this.state;
    const item = selected && (await itemNumber(recording, selected.line, selected.item + by));
    if (item) this.goTo(item);
  }

  /** Selects the next (1) or previous (-1) item of the same row and name. */
  async selectSameName(by: 1 | -1): Promise<void> {
    const { selected, recording } = this.state;
    if (!selected) return;
    const cancelled = (): boolean => this.state.selected !== selected;
    const item = await occurrence(recording, selected, by, cancelled);
    if (item && !cancelled()) this.goTo(item);
  }

  async selectNumber(line: number, item: number, go = true): Promise<void> {
    const { recording } = this.state;
    const row = recording.lines[line];
    const found = row && (await itemNumber(recording, row, item));
    if (found && go) this.goTo(found);
    else if (found) this.select(found);
  }

  /** Selects what is at a place of the canvas. */
  async selectAt(x: number, y: number): Promise<void> {
    const found = await this.itemAt(x, y);
    if (found) this.select(found.item);
    else this.clear();
  }

  /** The item at a place of the canvas: of several in one pixel the longest. */
  async itemAt(x: number, y: number): Promise<{ item: Item; count: number } | undefined> {
    const { view, recording } = this.state;
    const line = this.lineAt(y);
    if (!line) return undefined;
    const ns = nsPerPixel(view);
    const t = timeAt(view, x);
    const exact = await longestBetween(recording, line, t, t);
    if (exact && exact.item.end - exact.item.start >= 3 * ns) return { ...exact, count: 1 };
    // An instant's mark is wide; a counter's value lasts until the next.
    // Pixels on each side in which an item counts as hit.
    const reach = (line.kind === Kind.Instant ? 5 : line.kind === Kind.Counter ? 0 : 1) * ns;
    return longestBetween(recording, line, line.kind === Kind.Counter ? -1 : t - reach, t + reach);
  }

  /** The line whose row is at a height of the canvas. */
  lineAt(y: number): Line | undefined {
    const found = trackAtCanvas(this.state, y);
    return found && rowAt(found.track, y - found.top)?.line;
  }

  /** Brings into view what a cell of a table stands for. */
  follow(go: Go): void {
    const { index, lines } = this.state.recording;
    if ("thread" in go) {
      const line = lines.find((line) => line.owner === go.thread && (line.kind === Kind.State || line.kind === Kind.Slice));
      if (line) this.rows.reveal(line);
    } else {
      const lock = index.locks.findIndex((lock) => lock.object === go.lock);
      const line = lines.find((line) => line.kind === Kind.Lock && line.owner === lock);
      if (line) this.rows.reveal(line);
    }
  }
}
