// The report: holds what the person chose, draws a frame when something changed, and hands events on.
import { groupBy } from "../data/group";
import { Kind, SliceKind } from "../data/index";
import { longestBetween, itemNumber, type Item } from "../data/query";
import type { Line, Recording } from "../data/recording";
import { next, parseQuery, search, wantedBy, type Found, type Wanted } from "../data/search";
import { linesOf } from "../data/details";
import { ARROW_KINDS, fitting, MAX_ARROWS, TASKS_AT_ONCE, type Arrow, type ArrowKind } from "../data/arrow";
import { stolen, TaskTable } from "../data/tasks";
import { cell, SliceColumn } from "../data/columns";
import type { Go } from "../data/index";
import { creations, moves, wakeups } from "../draw/arrows";
import { canvasOf, download, svgOf } from "../draw/export";
import { Account } from "../data/account";
import { AccountTab } from "./account";
import { AXIS, Painter, trackAtCanvas, visibleTracks, type Scene } from "../draw/frame";
import { classColour, Colours, css, DARK, LIGHT, type Theme } from "../draw/palette";
import { Flows } from "../data/flows";
import { format, parse, type Saved } from "../view/fragment";
import { duration } from "../view/units";
import { Arranger, rowAt, type Choices, type Layout, type Row, type Track } from "../view/layout";
import { clampRange, fitted, nsPerPixel, timeAt, xOf, type Viewport } from "../view/viewport";
import { h } from "./dom";
import { buildShell, type Shell } from "./shell";
import { Headers } from "./headers";
import { Panel } from "./panel";
import { bindInput } from "./input";
import { Minimap } from "./minimap";
import type { Note } from "./notes";
import { itemKind, itemTitle, ownerLabel } from "./describe";
import { Tooltip } from "./tooltip";
import type { Address } from "./address";

/** A rectangle of the chart: a time and the tracks it covers. */
export interface Area {
  t0: number;
  t1: number;
  tracks: string[];
}

export class App {
  readonly view: Viewport;
  readonly choices: Choices = { toggled: new Set(), hidden: new Set(), pinned: [], filter: "" };
  readonly shell: Shell;
  readonly painter = new Painter();
  readonly panel: Panel;
  readonly tooltip: Tooltip;
  readonly minimap: Minimap;
  readonly tasks: TaskTable;
  readonly account: Account;
  private readonly accountTab: AccountTab;
  readonly notes: Note[] = [];
  /** What the axis calls 0, ns on the file's axis. */
  origin: number;
  /** Whether keys are meant for this chart. */
  active: () => boolean = () => true;
  /** Called after the person moved the view, not after {@link follow}. */
  onmove: () => void = () => undefined;
  layout: Layout;
  theme: Theme;
  colours: Colours;
  selected: Item | undefined;
  area: Area | undefined;
  found: Found | undefined;
  /** Kinds of arrows shown for all that is in view, not only for what is selected. */
  readonly arrowKinds = new Set<ArrowKind>();
  /** Arrows in view that were not drawn, because there were too many. */
  tooManyArrows = false;
  cursor: number | undefined;
  hover: Item | undefined;
  /** While an area is being drawn: its corners. */
  rubber: { t0: number; t1: number; y0: number; y1: number } | undefined;
  /** For benchmarks: ms of script of the last frame. */
  frameMs = 0;
  complete = false;
  private readonly arranger: Arranger;
  private readonly headers: Headers;
  private readonly flows: Flows;
  private readonly rareNames: Uint8Array;
  private readonly notable: Scene["notable"];
  private frame = 0;
  private searchRun = 0;
  private save: ReturnType<typeof setTimeout> | undefined;

  /** `slot` tells this recording's ids and part of the address from those of another in the same page; "" alone. */
  constructor(
    readonly recording: Recording,
    readonly root: HTMLElement,
    private readonly address: Address,
    readonly slot = "",
    panelHost = root,
  ) {
    const { index } = recording;
    this.origin = index.span[0];
    this.tasks = new TaskTable(recording);
    this.account = new Account(recording);
    this.accountTab = new AccountTab(this);
    this.theme = matchMedia("(prefers-color-scheme: dark)").matches ? DARK : LIGHT;
    this.colours = new Colours(index, this.theme.dark);
    this.arranger = new Arranger(index, recording.lines);
    this.layout = this.arranger.arrange(this.choices);
    this.rareNames = new Uint8Array(index.strings.length);
    for (const row of index.names) if (row.count <= 8) this.rareNames[row.name] = 1;
    const longest = groupBy(index.names, (row) => row.line);
    this.notable = new Map(
      [...longest].map(([line, rows]) => [line, rows.map((row) => ({ start: row.start, end: row.start + row.max, value: (row.name << 4) | row.kind }))]),
    );
    this.minimap = new Minimap(this);
    this.shell = buildShell(this, root, panelHost);
    const [t0, t1] = this.home();
    this.view = { t0, t1, width: 1000, height: 600, scroll: 0 };
    this.headers = new Headers(this);
    this.panel = new Panel(this);
    this.tooltip = new Tooltip(this);
    this.flows = new Flows(recording);
    recording.onload = () => this.redraw();
    this.restore();
    bindInput(this);
    this.setTheme(this.theme.dark);
    this.resize();
    new ResizeObserver(() => this.resize()).observe(this.shell.chart);
    if (!this.area) this.panel.showNothing();
    this.panel.openFirst();
    void this.account.load().then(() => {
      this.redraw();
      return this.minimap.load();
    });
  }

  /** CPUs that the account is asked for: those of the marked area or of the selected item; undefined: all. */
  accountCpus(): Set<number> | undefined {
    const { area, selected } = this;
    if (selected?.line.kind === Kind.Cpu) return new Set([selected.line.owner]);
    const cpus = area?.tracks.flatMap((id) => (/^cpu\d+$/.test(id) ? [Number(id.slice(3))] : [])) ?? [];
    return cpus.length > 0 ? new Set(cpus) : undefined;
  }

  /** What the account says at a place of its row, largest share first; undefined elsewhere. */
  accountAt(x: number, y: number): HTMLElement[] | undefined {
    const { recording, view, theme } = this;
    const classes = recording.index.account?.classes;
    if (!classes || trackAtCanvas(this, y)?.track.kind !== "account") return undefined;
    const t = timeAt(view, x);
    const { shares } = this.account.shares(t, t + nsPerPixel(view), 1, this.accountCpus());
    const cpus = this.accountCpus()?.size ?? this.account.lines.length;
    const rows = [...shares].map((share, c) => ({ share, c })).filter(({ share }) => share > 0.002).sort((a, b) => b.share - a.share);
    return rows.slice(0, 8).map(({ share, c }) =>
      h("div", { class: "swatch" }, h("i", { style: `--c:${css(classColour(classes[c]![0], theme.dark))}` }), `${classes[c]![1]} `, h("span", { class: "muted" }, `${(share * cpus).toFixed(2)} of ${cpus} CPUs`)),
    );
  }

  /** The tab with the account, when there is one. */
  accountTabs(): { id: string; text: string; content: () => HTMLElement }[] {
    if (!this.recording.index.account) return [];
    const content = (): HTMLElement => {
      void this.accountTab.update();
      return this.accountTab.box;
    };
    return [{ id: "account", text: "Account", content }];
  }

  /** A part's name for screen readers; parts of a second chart in the page say so. */
  named(part: string): string {
    return this.slot === "" ? part : `${part}, second recording`;
  }

  /** What the first view shows: the recorded program's life, or the whole recording. */
  home(): [number, number] {
    const { index } = this.recording;
    let t0 = Infinity;
    let t1 = -Infinity;
    for (const thread of index.threads) {
      if (!index.processes[thread.process]?.target || thread.alive[1] <= thread.alive[0]) continue;
      t0 = Math.min(t0, thread.alive[0]);
      t1 = Math.max(t1, thread.alive[1]);
    }
    if (!(t1 > t0)) [t0, t1] = index.span[1] > index.span[0] ? index.span : [0, index.length];
    const margin = (t1 - t0) * 0.01;
    return clampRange(t0 - margin, t1 + margin, index.length);
  }

  // ---- drawing -----------------------------------------------------------------------------------------------

  redraw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw(): void {
    const began = performance.now();
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.recording.forgetWants();
    const ctx = this.shell.canvas.getContext("2d", { alpha: false })!;
    const scene = this.scene();
    this.complete = this.painter.draw(ctx, scene);
    this.headers.update();
    this.minimap.draw();
    this.shell.arrowNote.hidden = !this.tooManyArrows;
    this.frameMs = performance.now() - began;
  }

  scene(): Scene {
    const { recording, layout, view, colours, theme, found } = this;
    const { selected, hover, cursor } = this;
    return {
      recording,
      layout,
      view,
      colours,
      theme,
      marks: { selected, hover, cursor, area: this.rubber ?? this.areaOnScreen() },
      arrows: this.arrows(),
      matches: found?.matches,
      rare: this.rareNames,
      origin: this.origin,
      account: this.account,
      accountCpus: this.accountCpus(),
      notes: this.notes,
      notable: this.notable,
      dpr: window.devicePixelRatio || 1,
    };
  }

  private areaOnScreen(): Scene["marks"]["area"] {
    if (!this.area) return undefined;
    const ids = new Set(this.area.tracks);
    const shown = visibleTracks(this).filter(({ track }) => ids.has(track.id));
    if (shown.length === 0) return undefined;
    const y0 = Math.min(...shown.map(({ y }) => y));
    const y1 = Math.max(...shown.map(({ track, y }) => y + track.height));
    return { t0: this.area.t0, t1: this.area.t1, y0, y1 };
  }

  private arrows(): Arrow[] {
    const { recording, view, selected, arrowKinds } = this;
    const arrows: Arrow[] = [];
    const later = (): void => this.redraw();
    const tasks = recording.index.n_tasks > 0 && (arrowKinds.has("steal") || arrowKinds.has("create") || selected?.line.kind === Kind.Slice) ? this.tasks.peek(later) : undefined;
    if (arrowKinds.size > 0) {
      const threads = visibleTracks(this).filter(({ track }) => track.kind === "thread");
      if (arrowKinds.has("wake")) {
        for (const { track } of threads) {
          const states = track.rows.find((row) => row.line.kind === Kind.State);
          if (states) wakeups(recording, states.line, view, arrows);
        }
      }
      if (arrowKinds.has("flow")) this.flows.between(view.t0, view.t1, arrows, later);
      if (tasks) {
        const steals = arrowKinds.has("steal");
        creations(tasks, view, (i) => (stolen(tasks, i) ? (steals ? "steal" : undefined) : arrowKinds.has("create") ? "create" : undefined), arrows);
        const lines = threads.flatMap(({ track }) => track.rows.filter((row) => row.line.kind === Kind.Slice).map((row) => row.line));
        if (steals) moves(recording, lines, view, arrows);
      }
    }
    if (selected && (selected.line.kind === Kind.State || selected.line.kind === Kind.Slice || selected.line.kind === Kind.Instant)) {
      const own: Arrow[] = [];
      const thread = selected.line.owner;
      const [states] = linesOf(recording, Kind.State, thread);
      if (states) {
        // A selected state shows its own wake-up, a selected slice those inside it.
        const within = { ...view, t0: Math.max(view.t0, selected.start), t1: Math.min(view.t1, selected.end) };
        if (within.t0 <= within.t1) wakeups(recording, states, within, own);
      }
      this.flows.between(view.t0, view.t1, own, later, thread);
      if (tasks && (selected.value & 15) === SliceKind.TaskRun) {
        const task = cell(selected.unit, SliceColumn.Task, selected.i) - 1;
        creations(tasks, view, (i) => (i === task || tasks.parent[i] === task ? "create" : undefined), own);
      }
      for (const arrow of own) arrow.strong = arrow.to >= selected.start && arrow.from <= selected.end;
      arrows.push(...own);
    }
    this.tooManyArrows = arrows.length > MAX_ARROWS;
    return fitting(arrows);
  }

  resize(): void {
    const { canvas, chart, stage } = this.shell;
    const dpr = window.devicePixelRatio || 1;
    const width = Math.max(50, chart.clientWidth - this.shell.headers.offsetWidth);
    const height = Math.max(50, chart.clientHeight);
    stage.style.height = `${height}px`;
    canvas.width = Math.round(width * dpr);
    canvas.height = Math.round(height * dpr);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    this.view.width = width;
    this.view.height = height;
    this.fitScroll();
    this.minimap.resize(width);
    this.draw();
  }

  private fitScroll(): void {
    const { chart, spacer } = this.shell;
    const content = AXIS + this.layout.pinnedHeight + this.layout.height + 24;
    spacer.style.height = `${Math.max(0, content - chart.clientHeight)}px`;
    this.view.scroll = chart.scrollTop;
  }

  setTheme(dark: boolean): void {
    this.theme = dark ? DARK : LIGHT;
    this.colours = new Colours(this.recording.index, dark);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    this.shell.setLegend(dark);
    this.panel?.rethemed();
    this.minimap.rethemed();
    this.redraw();
  }

  // ---- view --------------------------------------------------------------------------------------------------

  show(range: [number, number]): void {
    this.follow(range);
    this.onmove();
  }

  /** Shows `range` because another chart does. */
  follow(range: [number, number]): void {
    [this.view.t0, this.view.t1] = range;
    this.changed();
  }

  scrollTo(y: number): void {
    this.shell.chart.scrollTop = y;
    this.view.scroll = this.shell.chart.scrollTop;
    this.changed();
  }

  changed(): void {
    this.redraw();
    clearTimeout(this.save);
    this.save = setTimeout(() => {
      this.store();
      if (this.panel?.shows("account")) void this.accountTab.update();
    }, 250);
  }

  rearrange(): void {
    this.layout = this.arranger.arrange(this.choices);
    this.shell.setHidden(this.choices.hidden.size);
    this.shell.empty.hidden = this.layout.tracks.length + this.layout.pinned.length > 0;
    this.fitScroll();
    this.changed();
  }

  toggleTrack(track: Track): void {
    if (!this.choices.toggled.delete(track.id)) this.choices.toggled.add(track.id);
    this.rearrange();
  }

  pin(track: Track): void {
    const { pinned } = this.choices;
    const at = pinned.indexOf(track.id);
    if (at >= 0) pinned.splice(at, 1);
    else pinned.push(track.id);
    this.rearrange();
  }

  hide(track: Track): void {
    this.choices.hidden.add(track.id);
    this.choices.pinned = this.choices.pinned.filter((id) => id !== track.id);
    this.rearrange();
  }

  unhideAll(): void {
    this.choices.hidden.clear();
    this.rearrange();
  }

  setFilter(text: string): void {
    this.choices.filter = text;
    this.rearrange();
  }

  /** Scrolls so that the row of `line` shows, opening what encloses it. */
  reveal(line: Line): void {
    const find = (): { track: Track; row: Row } | undefined => {
      for (const track of [...this.layout.pinned, ...this.layout.tracks]) {
        const row = track.rows.find((row) => row.line === line);
        if (row) return { track, row };
      }
      return undefined;
    };
    let place = find();
    if (!place) {
      this.open(line);
      place = find();
    }
    if (!place || place.track.pinned) return;
    const top = place.track.y + place.row.y;
    const room = this.view.height - AXIS - this.layout.pinnedHeight;
    if (top < this.view.scroll || top + place.row.height > this.view.scroll + room) this.scrollTo(Math.max(0, top - room / 3));
  }

  private open(line: Line): void {
    this.choices.filter = "";
    this.shell.filter.value = "";
    this.layout = this.arranger.arrange(this.choices);
    for (const id of this.arranger.above(line)) this.openTrack(id);
    this.choices.hidden.delete(this.arranger.idOf(line));
    this.rearrange();
  }

  private openTrack(id: string): void {
    this.choices.hidden.delete(id);
    this.layout = this.arranger.arrange(this.choices);
    const track = this.layout.tracks.find((t) => t.id === id);
    if (track?.open === false) {
      if (!this.choices.toggled.delete(id)) this.choices.toggled.add(id);
      this.layout = this.arranger.arrange(this.choices);
    }
  }

  // ---- selection ---------------------------------------------------------------------------------------------

  /** Selects `item`; `go` also brings it into view. */
  select(item: Item | undefined, go = false): void {
    this.selected = item;
    this.area = undefined;
    if (item) {
      const { recording } = this;
      this.shell.say(`${itemTitle(recording, item)}, ${itemKind(recording, item)}, ${duration(item.end - item.start)}, ${ownerLabel(recording, item.line)}, at ${duration(item.start - this.origin)}`);
      void this.panel.showItem(item);
      if (go) this.goTo(item);
    } else {
      this.panel.showNothing();
    }
    this.changed();
  }

  goTo(item: Item): void {
    this.reveal(item.line);
    const { view } = this;
    const width = view.t1 - view.t0;
    const length = item.end - item.start;
    const visible = item.start >= view.t0 && item.end <= view.t1;
    if (visible && length / nsPerPixel(view) >= 4) return;
    if (length >= width || length / nsPerPixel(view) < 4) this.show(fitted(item.start, item.end, this.recording.length, 0.25));
    else this.show(clampRange(item.start - width / 2, item.start + width / 2, this.recording.length));
  }

  selectArea(t0: number, t1: number, y0: number, y1: number): void {
    const tracks = visibleTracks(this)
      .filter(({ track, y }) => y < y1 && y + track.height > y0)
      .map(({ track }) => track.id);
    this.rubber = undefined;
    this.selected = undefined;
    this.area = { t0, t1, tracks };
    this.shell.say(`area of ${duration(t1 - t0)} and ${tracks.length} rows`);
    void this.panel.showArea(this.area);
    this.changed();
  }

  /** Selects the item of the next row below (1) or above (-1) at the same time; without a selection, the first in view. */
  async selectRow(by: 1 | -1): Promise<void> {
    const rows = [...this.layout.pinned, ...this.layout.tracks].flatMap((track) => track.rows.map((row) => row.line));
    const { selected, view } = this;
    const middle = (view.t0 + view.t1) / 2;
    const seen = selected ? Math.min(Math.max((selected.start + selected.end) / 2, view.t0), view.t1) : middle;
    const t = selected && selected.end >= view.t0 && selected.start <= view.t1 ? seen : middle;
    const first = visibleTracks(this).find(({ track }) => track.rows.length > 0)?.track.rows[0]?.line;
    let at = selected ? rows.indexOf(selected.line) + by : rows.indexOf(first ?? rows[0]!);
    for (; at >= 0 && at < rows.length; at += by) {
      const line = rows[at]!;
      const found = (await longestBetween(this.recording, line, t, t)) ?? (await longestBetween(this.recording, line, view.t0, view.t1));
      if (found) {
        this.select(found.item);
        this.reveal(line);
        return;
      }
    }
  }

  /** Brings into view what a cell of a table stands for. */
  go(go: Go): void {
    const { index, lines } = this.recording;
    if ("range" in go) this.show(fitted(go.range[0], go.range[1], this.recording.length, 0.9));
    else if ("name" in go) {
      const row = index.names.find((row) => row.name === go.name);
      if (row) void this.selectNumber(row.line, row.item);
    } else if ("thread" in go) {
      const line = lines.find((line) => line.owner === go.thread && (line.kind === Kind.State || line.kind === Kind.Slice));
      if (line) this.reveal(line);
    } else {
      const lock = index.locks.findIndex((lock) => lock.object === go.lock);
      const line = lines.find((line) => line.kind === Kind.Lock && line.owner === lock);
      if (line) this.reveal(line);
    }
  }

  /** Tabs that are there only with another recording beside this one. */
  extraTabs: () => { id: string; text: string; content: () => HTMLElement }[] = () => [];

  // ---- notes -------------------------------------------------------------------------------------------------

  /** Marks the selection, the area, or the time under the pointer. */
  addNote(): void {
    const { area, selected, view } = this;
    const at = this.cursor ?? (view.t0 + view.t1) / 2;
    const [t0, t1] = area ? [area.t0, area.t1] : selected ? [selected.start, selected.end] : [at, at];
    this.notes.push({ t0: Math.max(0, Math.round(t0)), t1: Math.max(0, Math.round(t1)), text: "" });
    this.notes.sort((a, b) => a.t0 - b.t0);
    this.panel.open("notes");
    const at_ = this.notes.findIndex((note) => note.text === "" && note.t0 === Math.max(0, Math.round(t0)));
    this.shell.panel.querySelectorAll<HTMLInputElement>(".note-text")[at_]?.focus();
    this.changed();
  }

  removeNote(note: Note): void {
    this.notes.splice(this.notes.indexOf(note), 1);
    this.panel.refresh("notes");
    this.changed();
  }

  showNote(note: Note): void {
    const width = this.view.t1 - this.view.t0;
    if (note.t1 > note.t0) this.show(fitted(note.t0, note.t1, this.recording.length, 0.6));
    else this.show(clampRange(note.t0 - width / 2, note.t0 + width / 2, this.recording.length));
  }

  // ---- pictures ----------------------------------------------------------------------------------------------

  /** Saves what is in view as a file. */
  savePicture(kind: "svg" | "png"): void {
    const { title } = this.recording.index;
    const scene = { ...this.scene(), marks: { ...this.scene().marks, cursor: undefined, hover: undefined } };
    const name = `${title.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "kasuri"}.${kind}`;
    if (kind === "svg") download(name, new Blob([svgOf(scene, title)], { type: "image/svg+xml" }));
    else canvasOf(scene, title).toBlob((blob) => blob && download(name, blob), "image/png");
  }
  /** Zooms to what is selected; without a selection to everything. */
  fitSelection(): void {
    if (this.area) this.show(fitted(this.area.t0, this.area.t1, this.recording.length, 0.9));
    else if (this.selected) this.show(fitted(this.selected.start, this.selected.end, this.recording.length, 0.7));
    else this.show(this.home());
  }

  /** The row at a place of the canvas. */
  rowAt(y: number): { row: Row; track: Track } | undefined {
    const found = trackAtCanvas(this, y);
    if (!found) return undefined;
    const row = rowAt(found.track, y - found.top);
    return row && { row, track: found.track };
  }

  /** The item at a place of the canvas: of several in one pixel the longest. */
  async itemAt(x: number, y: number): Promise<{ item: Item; count: number } | undefined> {
    const place = this.rowAt(y);
    if (!place) return undefined;
    const { line } = place.row;
    const ns = nsPerPixel(this.view);
    const t = timeAt(this.view, x);
    const reach = line.kind === Kind.Instant ? 5 : line.kind === Kind.Counter ? 0 : 1;
    const from = line.kind === Kind.Counter ? -1 : t - reach * ns;
    const exact = await longestBetween(this.recording, line, t, t);
    if (exact && exact.item.end - exact.item.start >= 3 * ns) return { ...exact, count: 1 };
    return longestBetween(this.recording, line, from, t + reach * ns);
  }

  async selectAt(x: number, y: number): Promise<void> {
    const found = await this.itemAt(x, y);
    this.select(found?.item);
  }

  async selectNumber(line: number, item: number, go = true): Promise<void> {
    const row = this.recording.lines[line];
    const found = row && (await itemNumber(this.recording, row, item));
    if (found) this.select(found, go);
  }

  // ---- search ------------------------------------------------------------------------------------------------

  setSearch(text: string): void {
    const query = parseQuery(text);
    this.found = query && search(this.recording.index, query);
    this.shell.setFound(this.found);
    this.panel?.refresh("found");
    this.changed();
  }

  async findNext(direction: 1 | -1): Promise<void> {
    const { found } = this;
    if (!found || found.query.error !== undefined) return;
    await this.step(wantedBy(found), direction);
  }

  /** Selects the next (or previous) slice that is wanted, after the selected one or the view's edge; past the last comes the first. */
  async step(wanted: Wanted, direction: 1 | -1): Promise<void> {
    const run = ++this.searchRun;
    const at = this.selected
      ? { start: this.selected.start, line: this.selected.line.ix }
      : { start: direction === 1 ? this.view.t0 - 1 : this.view.t1, line: 0 };
    this.shell.setSearching(true);
    const cancelled = (): boolean => run !== this.searchRun;
    let item = await next(this.recording, wanted, at, direction, cancelled);
    item ??= await next(this.recording, wanted, { start: direction === 1 ? -1 : Infinity, line: direction === 1 ? -1 : Infinity }, direction, cancelled);
    if (cancelled()) return;
    this.shell.setSearching(false);
    if (item) this.select(item, true);
  }

  // ---- the address -------------------------------------------------------------------------------------------

  private store(): void {
    const { view, choices, selected, area } = this;
    const saved: Saved = {
      t0: view.t0,
      t1: view.t1,
      ...(selected && { selected: [selected.line.ix, selected.item] as [number, number] }),
      ...(area && { area }),
      pinned: choices.pinned,
      hidden: [...choices.hidden],
      toggled: [...choices.toggled],
      filter: choices.filter,
      search: this.shell.search.value,
      ...(String([...this.arrowKinds]) !== String(this.usualArrows()) && { arrows: [...this.arrowKinds] }),
      scroll: view.scroll,
      notes: this.notes,
    };
    this.address.set(this.slot, format(saved));
  }

  private restore(): void {
    const saved = parse(this.address.get(this.slot));
    if (saved.t0 !== undefined && saved.t1 !== undefined) {
      [this.view.t0, this.view.t1] = clampRange(saved.t0, saved.t1, this.recording.length);
    }
    this.choices.pinned = saved.pinned ?? [];
    this.choices.hidden = new Set(saved.hidden);
    this.choices.toggled = new Set(saved.toggled);
    this.choices.filter = saved.filter ?? "";
    this.shell.filter.value = this.choices.filter;
    this.notes.push(...(saved.notes ?? []));
    const arrows = saved.arrows ?? this.usualArrows();
    for (const kind of ARROW_KINDS) this.setArrows(kind, arrows.includes(kind));
    this.layout = this.arranger.arrange(this.choices);
    this.shell.setHidden(this.choices.hidden.size);
    if (saved.search) {
      this.shell.search.value = saved.search;
      this.setSearch(saved.search);
    }
    if (saved.area) {
      this.area = saved.area;
      void this.panel.showArea(saved.area);
    }
    if (saved.selected) void this.selectNumber(...saved.selected, false);
    if (saved.scroll) requestAnimationFrame(() => this.scrollTo(saved.scroll!));
  }

  setArrows(kind: ArrowKind, on: boolean): void {
    if (on) this.arrowKinds.add(kind);
    else this.arrowKinds.delete(kind);
    this.shell.setArrows(this.arrowKinds);
    this.changed();
  }

  /** Those shown until the person chooses. */
  private usualArrows(): string[] {
    const { n_tasks } = this.recording.index;
    return n_tasks > 0 && n_tasks <= TASKS_AT_ONCE ? ["steal"] : [];
  }

  /** Kinds of arrows that this recording can have. */
  possibleArrows(): ArrowKind[] {
    const { index, lines } = this.recording;
    const has: Record<ArrowKind, boolean> = { wake: lines.some((line) => line.kind === Kind.State), flow: index.n_flows > 0, create: index.n_tasks > 0, steal: index.n_tasks > 0 };
    return ARROW_KINDS.filter((kind) => has[kind]);
  }

  toggleArrows(): void {
    const possible = this.possibleArrows();
    const on = possible.some((kind) => !this.arrowKinds.has(kind));
    for (const kind of possible) this.setArrows(kind, on);
  }

  /** Where `t` is on the canvas. */
  x(t: number): number {
    return xOf(this.view, t);
  }
}
