// Which rows show: folded, pinned, hidden, filtered; and how to bring one into view.
import type { Line } from "../data/recording";
import { AXIS } from "../draw/scene";
import type { Row, Track } from "../view/layout";
import type { Navigation } from "./navigation";
import type { ViewState } from "./state";

/** Each method is a choice of the person: it changes `choices` and has the rows laid out. */
export class Rows {
  constructor(
    private readonly state: ViewState,
    private readonly navigation: Navigation,
  ) {}

  /** Works the layout out anew, after a choice. */
  arrange(): void {
    const { state } = this;
    state.arrange();
    state.arranged.emit();
    state.changed();
  }

  toggle(track: Track): void {
    this.toggleId(track.id);
    this.arrange();
  }

  pin(track: Track): void {
    const { pinned } = this.state.choices;
    const at = pinned.indexOf(track.id);
    if (at >= 0) pinned.splice(at, 1);
    else pinned.push(track.id);
    this.arrange();
  }

  hide(track: Track): void {
    const { choices } = this.state;
    choices.hidden.add(track.id);
    choices.pinned = choices.pinned.filter((id) => id !== track.id);
    this.arrange();
  }

  showHidden(): void {
    this.state.choices.hidden.clear();
    this.arrange();
  }

  /** Shows only the rows whose name has `text`; "" shows all. */
  filter(text: string): void {
    this.state.choices.filter = text;
    this.arrange();
  }

  /** One thin row for each thread, CPU and lock, or all rows of each. */
  setCompact(compact: boolean): void {
    this.state.choices.compact = compact;
    this.arrange();
  }

  /**
   * Chooses for the person, once: compact where the rows would need more than `screens` times the room. A little scrolling is
   * better than to hide nested slices; a screen that shows five of sixty threads is not.
   */
  chooseCompact(screens: number): void {
    const { state } = this;
    const full = state.arranger.arrange({ ...state.choices, compact: false });
    state.compactByItself = full.pinnedHeight + full.height > screens * state.room;
    this.arrange();
  }

  /** Pins or unpins the track of `line`. */
  pinLine(line: Line): void {
    const place = this.find(line);
    if (place) this.pin(place.track);
  }

  /** Scrolls so that the row of `line` shows, opening what encloses it. */
  reveal(line: Line): void {
    const { state } = this;
    let place = this.find(line);
    if (!place) {
      this.open(line);
      place = this.find(line);
    }
    if (!place || place.track.pinned) return;
    const top = place.track.y + place.row.y;
    const room = state.view.height - AXIS - state.layout.pinnedHeight;
    const { scroll } = state.view;
    if (top < scroll || top + place.row.height > scroll + room) this.navigation.scrollTo(Math.max(0, top - room / 3));
  }

  /** Where the row of `line` is in the layout; undefined when it is hidden, folded away or filtered out. */
  private find(line: Line): { track: Track; row: Row } | undefined {
    const { pinned, tracks } = this.state.layout;
    for (const track of [...pinned, ...tracks]) {
      const row = track.rows.find((row) => row.line === line);
      if (row) return { track, row };
    }
    return undefined;
  }

  /** Makes the row of `line` show, whatever was hidden, folded or filtered. */
  private open(line: Line): void {
    const { arranger, choices } = this.state;
    choices.filter = "";
    this.state.arrange();
    for (const id of arranger.above(line)) this.openTrack(id);
    choices.hidden.delete(arranger.idOf(line));
    this.arrange();
  }

  /** What `id` encloses is in the layout only once `id` is open, hence a layout for each step. */
  private openTrack(id: string): void {
    const { state } = this;
    state.choices.hidden.delete(id);
    state.arrange();
    if (state.layout.tracks.find((track) => track.id === id)?.open !== false) return;
    this.toggleId(id);
    state.arrange();
  }

  private toggleId(id: string): void {
    const { toggled } = this.state.choices;
    // The set holds what differs from the default, so toggling twice leaves no trace in the address.
    if (!toggled.delete(id)) toggled.add(id);
  }
}
