// Two recordings one above the other, on time axes that are aligned: what is at the same place of the screen happened at the same
// time after the point that the person chose. The pair owns two views and tells each what the other does; neither knows of it.
import type { Recording } from "../data/recording";
import { next } from "../data/search";
import { nameOf } from "../data/value";
import { Address } from "./address";
import { commonNames, CompareTab, labelOf, type Side } from "./compare";
import { fill, h } from "./dom";
import type { OtherRecording } from "./flame";
import { legend } from "./legend";
import { homeOf, lifeOf } from "./life";
import type { Tab } from "./panel";
import { RecordingView, type Companion } from "./recording-view";

/** Names offered as points to align at. */
const MOST_NAMES = 30;

export class Pair {
  readonly views: readonly [RecordingView, RecordingView];
  /** What each view's panel shows of both. */
  private readonly compare: CompareTab[];
  private current = 0;
  /** One view moves because the other did. */
  private following = false;
  /** Times of the two files that are at the same place of the screen. */
  private readonly anchors: [number, number];
  private readonly panes = [h("div", { class: "pane" }), h("div", { class: "pane" })] as const;
  private readonly panels = [h("div", { class: "pane-panel" }), h("div", { class: "pane-panel" })] as const;

  constructor(
    private readonly recordings: readonly [Recording, Recording],
    root: HTMLElement,
  ) {
    const { panes, panels } = this;
    const bar = h("header", { class: "pair-bar" });
    const legends = h("div", {});
    fill(root, bar, h("div", { class: "panes" }, ...panes), ...panels, legends);
    root.classList.add("pair");
    this.anchors = [lifeOf(recordings[0])[0], lifeOf(recordings[1])[0]];
    const address = new Address();
    this.views = [new RecordingView(recordings[0], panes[0], address, this.companion(0)), new RecordingView(recordings[1], panes[1], address, this.companion(1))];
    const sides = this.views.map(({ state, selection, account }): Side => ({ state, selection, account })) as [Side, Side];
    this.compare = this.views.map(() => new CompareTab(sides));
    this.views.forEach((view, i) => this.connect(view, i));
    this.activate(0);
    fill(bar, ...this.controls());
    if (location.hash.length < 3) this.views[0].navigation.showHome();
    this.align();
    legends.append(legend(this.views.map(({ legendOf }) => legendOf)));
    for (const view of this.views) {
      view.panel.open("compare");
      // Half a window is little: threads come before all that encloses them.
      view.chooseRows(1);
    }
  }

  /** What view `i` is told about the page: never the other view itself. */
  private companion(i: 0 | 1): Companion {
    return {
      slot: i === 0 ? "" : "b",
      panelHost: this.panels[i],
      home: () => this.home(i),
      tabs: () => this.tabs(i),
      other: () => this.other(i),
      active: () => this.current === i,
      // One box searches both.
      focusSearch: () => this.views[0].searchInput.focus(),
    };
  }

  /** Theme, search and time are shared; the rest each view has by itself. */
  private connect(view: RecordingView, i: number): void {
    const other = this.views[1 - i]!;
    let timer: ReturnType<typeof setTimeout> | undefined;
    view.state.kept.on(() => {
      clearTimeout(timer);
      // Adding up while the views move would only delay the frames.
      timer = setTimeout(() => {
        if (view.panel.shows("compare")) void this.compare[i]!.update();
        if (other.panel.shows("flame")) other.flame.otherChanged();
      }, 250);
    });
    view.navigation.moved.on(() => this.moved(i));
    view.state.themeChanged.on(() => other.state.setTheme(view.state.theme.dark));
    view.state.foundChanged.on(() => other.search.set(view.search.text));
    for (const host of [this.panes[i]!, this.panels[i]!]) {
      for (const event of ["pointerdown", "focusin", "wheel", "click"]) host.addEventListener(event, () => this.activate(i), { capture: true, passive: true });
    }
  }

  /** Keys and the panel are for view `i` now. */
  private activate(i: number): void {
    this.current = i;
    for (const part of [this.panes, this.panels]) part.forEach((element, at) => element.classList.toggle("active", at === i));
  }

  private tabs(i: 0 | 1): Tab[] {
    return [{ id: "compare", text: "Compare", content: () => this.compare[i]!.open() }];
  }

  /** The recording that view `i` does not show, where it has samples. */
  private other(i: 0 | 1): OtherRecording | undefined {
    const { state, callPaths, pieces } = this.views[1 - i]!;
    return callPaths.exists ? { state, table: callPaths, pieces, first: i === 1 } : undefined;
  }

  /** Both programs' whole lives, on aligned axes, as a range of recording `i`. */
  private home(i: 0 | 1): [number, number] {
    const homes = this.recordings.map((recording, at) => homeOf(recording).map((t) => t - this.anchors[at]!));
    const anchor = this.anchors[i];
    return [Math.min(...homes.map(([t]) => t!)) + anchor, Math.max(...homes.map(([, t]) => t!)) + anchor];
  }

  /** View `i` was moved: the other follows. */
  private moved(i: number): void {
    if (this.following) return;
    this.following = true;
    const { t0, t1 } = this.views[i]!.state.view;
    // Both axes have the same scale; they differ by the distance of the anchors.
    const by = this.anchors[1 - i]! - this.anchors[i]!;
    this.views[1 - i]!.navigation.follow([t0 + by, t1 + by]);
    this.following = false;
  }

  /** The page's heading, and the points that the charts can be aligned at. */
  private controls(): HTMLElement[] {
    const [a, b] = this.recordings;
    const rows = commonNames(a, b).map(([row]) => row);
    // A lock's waits and holds are two rows of one name.
    const names = rows.filter((row, i) => rows.findIndex(({ name }) => name === row.name) === i).slice(0, MOST_NAMES);
    const select = h(
      "select",
      { id: "align", onchange: () => void this.alignAt(select.value) },
      h("option", { value: "start" }, "the program's start"),
      h("option", { value: "selection" }, "the selected items"),
      ...names.map((row) => h("option", { value: `name:${row.name}` }, `the first ${a.text(row.name)}`)),
    );
    return [
      h("span", { class: "brand" }, "kasuri"),
      h("h1", { class: "pair-title" }, labelOf(a), h("span", { class: "muted" }, " above "), labelOf(b)),
      h("span", { class: "grow" }),
      h("label", { for: "align" }, "aligned at"),
      select,
    ];
  }

  /** `point` is "start", "selection" or "name:" with the name's number in the first recording. */
  private async alignAt(point: string): Promise<void> {
    const [a, b] = this.views;
    const { selected } = a.state;
    if (point === "start") this.setAnchors(this.recordings.map((recording) => lifeOf(recording)[0]));
    else if (point !== "selection") {
      const name = this.recordings[0].text(Number(point.slice("name:".length)));
      this.setAnchors(await Promise.all(this.recordings.map((recording) => firstOf(recording, name))));
    } else if (selected && b.state.selected) this.setAnchors([selected.start, b.state.selected.start]);
    else a.state.said.emit("select an item in each chart first");
  }

  private setAnchors(times: (number | undefined)[]): void {
    times.forEach((t, i) => (this.anchors[i] = t ?? this.anchors[i]!));
    this.align();
  }

  /** Tells both views where their axes begin. */
  private align(): void {
    this.views.forEach(({ state }, i) => {
      state.origin = this.anchors[i]!;
      state.redraw();
    });
    this.moved(this.current);
  }
}

/** When the first slice of `name` begins. */
async function firstOf(recording: Recording, name: string): Promise<number | undefined> {
  const row = recording.index.names.find((row) => recording.text(row.name) === name);
  if (!row) return undefined;
  const item = await next(recording, (value) => nameOf(value) === row.name, { start: -1, line: -1 }, 1);
  return item?.start;
}
