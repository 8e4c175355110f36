// The names of the rows, left of the chart, with what can be done to them.
import { AXIS, visibleTracks } from "../draw/scene";
import type { Track } from "../view/layout";
import { duration, percent } from "../view/units";
import { Kind, State } from "../data/index";
import { h } from "./dom";
import type { Rows } from "./rows";
import type { ViewState } from "./state";
import { chosenCpus } from "./subject";

/** Elements for the rows in view only: a thousand threads have as few as ten. */
export class Headers {
  /** The elements that are in the page, by track id. */
  private readonly elements = new Map<string, HTMLElement>();
  private readonly top: HTMLElement;
  private readonly rest: HTMLElement;
  /** What the elements were made for: while it is the same, they are only moved. */
  private shown = "";

  constructor(
    private readonly state: ViewState,
    private readonly rows: Rows,
    host: HTMLElement,
  ) {
    this.top = h("div", { class: "pinned-headers" });
    this.rest = h("div", { class: "track-headers" });
    host.append(h("div", { class: "corner", style: `height:${AXIS - 1}px` }), this.top, this.rest);
  }

  /** Puts the headers where the rows are. */
  update(): void {
    const { layout, view } = this.state;
    const tracks = visibleTracks(this.state);
    // Everything that changes an element's content: tracks, open or not, pinned, compact, and the account's CPUs.
    const key = `${[...(chosenCpus(this.state) ?? [])].join()};` + tracks.map(({ track }) => `${track.id}:${track.open ?? ""}:${track.pinned}:${track.compact === true ? track.height : ""}`).join();
    if (key !== this.shown) {
      this.shown = key;
      this.rebuild(tracks.map(({ track }) => track));
    }
    this.top.style.height = `${layout.pinnedHeight}px`;
    for (const { track, y } of tracks) {
      const element = this.elements.get(track.id);
      if (!element) continue;
      // Moved by a transform, which costs no layout of the page: scrolling does this with every frame.
      const top = track.pinned ? track.y : y - AXIS - layout.pinnedHeight;
      element.style.transform = `translateY(${top}px)`;
    }
    this.rest.style.height = `${Math.max(0, view.height - AXIS - layout.pinnedHeight)}px`;
  }

  /** Makes the headers anew. Focus is kept: a person who pins a row by keyboard goes on from there. */
  private rebuild(tracks: Track[]): void {
    // Track and button that have the focus; `data-do` names the button.
    const focused = document.activeElement?.closest<HTMLElement>(".track")?.dataset.id;
    const control = (document.activeElement as HTMLElement | null)?.dataset.do;
    const keep = new Set(tracks.map((track) => track.id));
    for (const [id, element] of this.elements) {
      if (!keep.has(id)) {
        element.remove();
        this.elements.delete(id);
      }
    }
    for (const track of tracks) {
      const made = this.element(track);
      const old = this.elements.get(track.id);
      if (old) old.remove();
      (track.pinned ? this.top : this.rest).append(made);
      this.elements.set(track.id, made);
    }
    if (focused !== undefined && control !== undefined) {
      this.elements.get(focused)?.querySelector<HTMLElement>(`[data-do="${control}"]`)?.focus({ preventScroll: true });
    }
  }

  /** The header of a full row, or of a heading: a name or a fold, and buttons to pin and to hide. */
  private element(track: Track): HTMLElement {
    const { rows } = this;
    if (track.compact && track.open === undefined && track.kind !== "account") return this.thin(track);
    const folds = track.open !== undefined;
    const name = `${track.title} ${track.detail}`.trim();
    const label = folds
      ? h(
          "button",
          {
            class: "fold",
            "data-do": "fold",
            "aria-expanded": String(track.open),
            title: `${track.open ? "close" : "open"} ${name}`,
            onclick: () => rows.toggle(track),
          },
          h("span", { class: "triangle", "aria-hidden": "true" }, track.open ? "\u25be" : "\u25b8"),
          h("span", { class: "title" }, track.title),
          h("span", { class: "detail" }, track.detail),
        )
      : h("div", { class: "name", title: name }, h("span", { class: "title" }, track.title), h("span", { class: "detail" }, track.detail));
    const buttons = h("div", { class: "row-buttons" });
    // Groups can only be folded; processes can also be hidden; single rows can be pinned too.
    if (track.kind !== "group") {
      if (track.kind !== "process") {
        const what = track.pinned ? "unpin" : "pin";
        buttons.append(
          h("button", { "data-do": "pin", title: `${what} this row`, "aria-label": `${what} ${name}`, "aria-pressed": String(track.pinned), onclick: () => rows.pin(track) }, track.pinned ? "\u2605" : "\u2606"),
        );
      }
      buttons.append(
        h("button", { "data-do": "hide", title: "hide this row", "aria-label": `hide ${name}`, onclick: () => rows.hide(track) }, "\u2715"),
      );
    }
    const element = h(
      "div",
      { class: `track ${track.kind}${track.compact ? " compact" : ""}`, "data-id": track.id, style: `height:${track.height}px;padding-left:${6 + 12 * track.indent}px` },
      h("div", { class: "track-head" }, label, buttons),
    );
    const facts = this.facts(track);
    if (facts !== "" && track.height >= 40 && !track.compact) element.append(h("div", { class: "facts" }, facts));
    return element;
  }

  /** A compact row has room for its name only, and none for buttons that a finger could hit: a click pins it, as p does. */
  private thin(track: Track): HTMLElement {
    const title = `${track.title} ${track.detail}`.trim();
    const attributes = { class: `track ${track.kind} thin`, "data-id": track.id, title: `${title}: click to see it in full at the top`, style: `height:${track.height}px;line-height:${track.height - 1}px;font-size:${Math.min(11, Math.max(7, track.height - 1))}px;padding-left:${6 + 12 * track.indent}px` };
    return h("div", { ...attributes, onclick: () => this.rows.pin(track) }, h("span", { class: "title" }, track.title), h("span", { class: "detail" }, ` ${track.detail}`));
  }

  /** A line below the name, where the row is high enough for one. */
  private facts(track: Track): string {
    if (track.kind === "lock") {
      const lock = this.state.recording.index.locks[track.ref];
      return lock ? `waited ${duration(lock.wait_ns)}, held ${duration(lock.hold_ns)}` : "";
    }
    if (track.kind === "account") {
      const cpus = chosenCpus(this.state);
      return cpus ? `of CPU ${[...cpus].join(", ")}` : "where the time of all CPUs went";
    }
    if (track.kind !== "thread") return "";
    const thread = this.state.recording.index.threads[track.ref];
    if (!thread || !track.rows.some((row) => row.line.kind === Kind.State)) return "";
    // Of the time that the thread lived, which may be less than the recording.
    const alive = thread.alive[1] - thread.alive[0];
    return `${percent(thread.states[State.Running] ?? 0, alive)} on CPU`;
  }
}
