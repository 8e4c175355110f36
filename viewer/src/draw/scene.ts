// What a frame is drawn from, and where the rows of a layout are on the screen.
import type { Account } from "../data/account";
import type { Arrow } from "../data/arrow";
import type { Line, Recording } from "../data/recording";
import { trackAt, type Layout, type Row, type Track } from "../view/layout";
import type { Viewport } from "../view/viewport";
import type { CodeRows } from "./code-rows";
import type { NameRows } from "./name-rows";
import type { Colours, Theme } from "./palette";

// Places: `x` counts CSS pixels from the chart's left edge, `y` from the canvas's top, so rows begin at y = AXIS. A
// track's own `y` counts from the top of its part, pinned or scrolled; visibleTracks() turns one into the other.
/** Height of the time axis above the rows, CSS pixels. */
export const AXIS = 34;
/** What is marked in the chart. */
export interface Marks {
  selected: { line: Line; start: number; end: number } | undefined;
  area: { t0: number; t1: number; y0: number; y1: number } | undefined;
  /** Time under the pointer. */
  cursor: number | undefined;
  hover: { line: Line; start: number; end: number } | undefined;
}

export interface Scene {
  recording: Recording;
  layout: Layout;
  view: Viewport;
  colours: Colours;
  theme: Theme;
  marks: Marks;
  arrows: Arrow[];
  /** Which names are looked for; undefined: no search. */
  matches: Uint8Array | undefined;
  /** By name: whether it is too rare to be merged away. */
  rare: Uint8Array;
  /** What the axis calls 0. */
  origin: number;
  notes: { t0: number; t1: number; text: string }[];
  /** For each line, the slices that are the longest of their name. */
  notable: Map<number, { start: number; end: number; value: number }[]>;
  /** Where CPU time went, and the CPUs that are asked for; undefined: all. */
  account: Account;
  accountCpus: Set<number> | undefined;
  /** Samples of call paths, once they were read. */
  code: CodeRows | undefined;
  /** Rows of CPUs show what was annotated; undefined: they show threads, or functions. */
  names: NameRows | undefined;
  dpr: number;
}

/** A row on the screen. */
export interface Placed {
  row: Row;
  track: Track;
  y: number;
}

/** A thread's name, or its id where it has none. */
export function threadName(recording: Recording, t: number): string {
  const thread = recording.index.threads[t];
  if (!thread) return "unknown";
  return recording.text(thread.name) || `thread ${thread.tid}`;
}

/** The tracks on the screen and where they are on the canvas; pinned ones do not scroll. */
export function visibleTracks(scene: { layout: Layout; view: Viewport }): { track: Track; y: number }[] {
  const { layout, view } = scene;
  const found = layout.pinned.map((track) => ({ track, y: AXIS + track.y }));
  const top = AXIS + layout.pinnedHeight;
  for (const track of layout.tracks) {
    const y = top + track.y - view.scroll;
    if (y + track.height > top && y < view.height) found.push({ track, y });
  }
  return found;
}

/** The rows on the screen, of the pinned tracks or of the others. */
export function visibleRows(scene: Scene, pinned: boolean): Placed[] {
  const placed: Placed[] = [];
  for (const { track, y } of visibleTracks(scene)) {
    if (track.pinned !== pinned) continue;
    for (const row of track.rows) {
      if (y + row.y + row.height > AXIS && y + row.y < scene.view.height) placed.push({ row, track, y: y + row.y });
    }
    if (track.density) density(placed, track, y);
  }
  return placed;
}

/** A closed group shows the states of its first threads as one thin row each, as many as fit. */
function density(placed: Placed[], track: Track, y: number): void {
  const lines = track.density!;
  const room = track.height - 6;
  const shown = lines.slice(0, room);
  const height = Math.max(1, Math.floor(room / Math.max(1, shown.length)));
  shown.forEach((line, i) => placed.push({ row: { line, role: "density", y: 0, height }, track, y: y + 3 + i * height }));
}

/** The track at a place of the canvas. */
export function trackAtCanvas(scene: { layout: Layout; view: Viewport }, y: number): { track: Track; top: number } | undefined {
  if (y < AXIS) return undefined;
  const found = trackAt(scene.layout, y - AXIS, scene.view.scroll);
  return found && { track: found.track, top: found.top + AXIS };
}
