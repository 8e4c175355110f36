// The page's address: each view of the page keeps what the person chose in a part of the fragment, so that a link or a reload
// shows the same.
import { ARROW_KINDS } from "../data/arrow";
import { format, parse, type Saved } from "../view/fragment";
import { clampRange } from "../view/viewport";
import type { Arrows } from "./arrows";
import type { Navigation } from "./navigation";
import { setProgram } from "./program";
import type { Search } from "./search";
import type { Selection } from "./selection";
import { RUNNING_BY, type ViewState } from "./state";

/** ms from a change to the address that keeps it: dragging makes many changes. */
const DELAY = 250;

/** The fragment, in parts: "" for the only or first view, "b" for the second. */
export class Address {
  private readonly parts = new Map<string, string>();

  constructor() {
    // The second view's part is one parameter of the first's, so that a link with one recording looks the same as before.
    const query = new URLSearchParams(location.hash.replace(/^#/, ""));
    const second = query.get("b");
    query.delete("b");
    this.parts.set("", query.toString());
    if (second !== null) this.parts.set("b", second);
  }

  get(slot: string): string {
    return this.parts.get(slot) ?? "";
  }

  set(slot: string, fragment: string): void {
    this.parts.set(slot, fragment);
    const second = this.parts.get("b");
    history.replaceState(null, "", `#${this.get("")}${second === undefined ? "" : `&b=${encodeURIComponent(second)}`}`);
  }
}

/** Keeps a state in its part of the address. */
export class Keeper {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly state: ViewState,
    private readonly parts: { selection: Selection; search: Search; arrows: Arrows; navigation: Navigation },
    private readonly address: Address,
    private readonly slot: string,
  ) {}

  /** From now on writes what changes. */
  start(): void {
    this.state.kept.on(() => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.address.set(this.slot, format(this.saved())), DELAY);
    });
  }

  private saved(): Saved {
    const { view, choices, selected, area, arrowKinds, notes } = this.state;
    const arrows = [...arrowKinds];
    // The usual arrows are not written: an address says only what the person chose.
    const usual = String(arrows) === String(this.parts.arrows.usual());
    return {
      t0: view.t0,
      t1: view.t1,
      ...(selected && { selected: [selected.line.ix, selected.item] as [number, number] }),
      ...(area && { area }),
      pinned: choices.pinned,
      hidden: [...choices.hidden],
      toggled: [...choices.toggled],
      filter: choices.filter,
      ...(choices.program !== undefined && { program: choices.program }),
      ...(choices.compact !== undefined && { compact: choices.compact }),
      ...(this.state.runningBy !== this.state.runningByItself && { runningBy: this.state.runningBy }),
      search: this.parts.search.text,
      ...(!usual && { arrows }),
      scroll: view.scroll,
      notes,
    };
  }

  /** Puts what the address says into the state; the layout is not arranged here. */
  restore(): void {
    const { state, parts } = this;
    const saved = parse(this.address.get(this.slot));
    const [t0, t1] = parts.navigation.home();
    [state.view.t0, state.view.t1] = saved.t0 !== undefined && saved.t1 !== undefined ? clampRange(saved.t0, saved.t1, state.recording.length) : [t0, t1];
    state.choices.pinned = saved.pinned ?? [];
    state.choices.hidden = new Set(saved.hidden);
    state.choices.toggled = new Set(saved.toggled);
    state.choices.filter = saved.filter ?? "";
    if (saved.program !== undefined) setProgram(state, saved.program);
    if (saved.compact !== undefined) state.choices.compact = saved.compact;
    const by = RUNNING_BY.find((by) => by === saved.runningBy);
    if (by) state.setRunningBy(by);
    state.notes.push(...(saved.notes ?? []));
    const arrows: string[] = saved.arrows ?? parts.arrows.usual();
    for (const kind of ARROW_KINDS) parts.arrows.set(kind, arrows.includes(kind));
    if (saved.search) parts.search.set(saved.search);
    if (saved.area) {
      state.area = saved.area;
      state.selectionChanged.emit();
    }
    if (saved.selected) void parts.selection.selectNumber(...saved.selected, false);
    // Rows have to be laid out before they can be scrolled.
    if (saved.scroll) requestAnimationFrame(() => parts.navigation.scrollTo(saved.scroll!));
  }
}
