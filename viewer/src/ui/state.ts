// What a view of one recording shows: what the person chose and selected. Data and signals only: this file knows no element of
// the page. Parts change a field and emit its signal; whoever shows the field listens.
import type { ArrowKind } from "../data/arrow";
import { Kind, SliceKind } from "../data/index";
import type { Item } from "../data/query";
import type { Recording } from "../data/recording";
import type { Found } from "../data/search";
import { Colours, DARK, LIGHT, type Theme } from "../draw/palette";
import { Arranger, type Choices, type Layout } from "../view/layout";
import { xOf, type Viewport } from "../view/viewport";
import { Signal } from "./signal";

/** Whether the program says what it does, and not only what it waits for. */
function hasWork({ index }: Recording): boolean {
  return index.names.some(({ kind }) => kind === SliceKind.Work || kind === SliceKind.TaskRun);
}

/** A rectangle of the chart: a time and the tracks it covers. */
export interface Area {
  t0: number;
  t1: number;
  tracks: string[];
}

/** A time that a person marked and wrote something about. */
export interface Note {
  t0: number;
  t1: number;
  text: string;
}

/** What running threads, and the rows of CPUs, have their colours of: states and threads; functions; CPUs of the innermost annotation. */
export const RUNNING_BY = ["states", "functions", "annotations"] as const;
export type RunningBy = (typeof RUNNING_BY)[number];

export class ViewState {
  readonly view: Viewport = { t0: 0, t1: 1, width: 1000, height: 600, scroll: 0 };
  readonly choices: Choices = { toggled: new Set(), hidden: new Set(), pinned: [], filter: "" };
  readonly arranger: Arranger;
  layout: Layout;
  /** Height that the rows may fill without scrolling, CSS pixels. */
  room = Infinity;
  /** Whether rows are compact until the person chooses. */
  compactByItself = false;
  theme: Theme;
  colours: Colours;
  /** What the axis calls 0, ns on the file's axis. */
  origin: number;
  /** At most one of `selected` and `area` is set. */
  selected: Item | undefined;
  area: Area | undefined;
  found: Found | undefined;
  readonly notes: Note[] = [];
  /** Kinds of arrows shown for all that is in view, not only for what is selected. */
  readonly arrowKinds = new Set<ArrowKind>();
  runningBy: RunningBy;
  /** What `runningBy` is until a person chooses: functions where samples are all that says what a program does. */
  readonly runningByItself: RunningBy;
  /** Time under the pointer. */
  cursor: number | undefined;
  hover: Item | undefined;
  /** While an area is being drawn: its corners. */
  rubber: { t0: number; t1: number; y0: number; y1: number } | undefined;

  /** A frame would look different now. */
  readonly frame = new Signal();
  /** Something that the address keeps has changed. */
  readonly kept = new Signal();
  /** There is a new layout. */
  readonly arranged = new Signal();
  /** `selected` or `area` is another. */
  readonly selectionChanged = new Signal();
  readonly foundChanged = new Signal();
  readonly notesChanged = new Signal();
  readonly arrowsChanged = new Signal();
  /** `runningBy` is another, or what its colours are is known now. */
  readonly runningByChanged = new Signal();
  readonly themeChanged = new Signal();
  /** Other processes are the program. */
  readonly programChanged = new Signal();
  /** A sentence for people who listen to the page. */
  readonly said = new Signal<string>();

  constructor(
    readonly recording: Recording,
    dark: boolean,
  ) {
    const { index } = recording;
    this.origin = index.span[0];
    this.runningBy = this.runningByItself = index.call_paths !== undefined && !hasWork(recording) ? "functions" : "states";
    this.theme = dark ? DARK : LIGHT;
    this.colours = new Colours(index, dark);
    this.arranger = new Arranger(index, recording.lines);
    this.layout = this.arranger.arrange(this.choices);
  }

  get compact(): boolean {
    return this.choices.compact ?? this.compactByItself;
  }

  /** Works the layout out anew. */
  arrange(): void {
    this.layout = this.arranger.arrange(this.choices, this.room, this.compactByItself);
  }

  redraw(): void {
    this.frame.emit();
  }

  /** Draws, and has the address written a moment later. */
  changed(): void {
    this.frame.emit();
    this.kept.emit();
  }

  /** Whether the recording has what rows would show. */
  canRunBy(by: RunningBy): boolean {
    const { index } = this.recording;
    if (by === "annotations") return hasWork(this.recording) && index.lines.some((line) => line.kind === Kind.Cpu);
    return by === "states" || index.call_paths !== undefined;
  }

  setRunningBy(by: RunningBy): void {
    if (!this.canRunBy(by)) return;
    this.runningBy = by;
    this.runningByChanged.emit();
    this.changed();
  }

  /** Shows rows by `by`, or, where they are so already, by states. */
  toggleRunningBy(by: RunningBy): void {
    this.setRunningBy(this.runningBy === by ? "states" : by);
  }

  /** After a change of what colours are made of. */
  recolour(): void {
    this.colours = new Colours(this.recording.index, this.theme.dark);
    this.redraw();
  }

  setTheme(dark: boolean): void {
    if (dark === this.theme.dark) return;
    this.theme = dark ? DARK : LIGHT;
    this.recolour();
    this.themeChanged.emit();
  }

  /** Where `t` is on the canvas. */
  x(t: number): number {
    return xOf(this.view, t);
  }
}
