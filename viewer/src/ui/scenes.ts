// What the next frame is drawn from.
import type { Account } from "../data/account";
import type { CallPathTable } from "../data/call-paths";
import { groupBy } from "../data/group";
import { encodeNamed } from "../data/value";
import { CodeColours, type CodeRows } from "../draw/code-rows";
import { NameRows } from "../draw/name-rows";
import { visibleTracks, type Scene } from "../draw/scene";
import type { Arrows } from "./arrows";
import { chosenCpus } from "./subject";
import type { ViewState } from "./state";

/** Names with at most this many slices are never merged away. */
const RARE = 8;

export class Scenes {
  private readonly rare: Uint8Array;
  private readonly notable: Scene["notable"];

  constructor(
    private readonly state: ViewState,
    private readonly account: Account,
    private readonly arrows: Arrows,
    private readonly callPaths: CallPathTable,
  ) {
    const { index } = state.recording;
    this.rare = new Uint8Array(index.strings.length);
    // Counted over all kinds of slices that share a name.
    const counts = new Map<number, number>();
    for (const { name, count } of index.names) counts.set(name, (counts.get(name) ?? 0) + count);
    for (const [name, count] of counts) if (count <= RARE) this.rare[name] = 1;
    // The longest slice of each name, by its line: painting a line needs no search.
    const rows = groupBy(index.names, (row) => row.line);
    this.notable = new Map([...rows].map(([line, names]) => [line, names.map((row) => ({ start: row.start, end: row.start + row.max, value: encodeNamed(row.name, row.kind) }))]));
  }

  /** The scene of this moment. It refers to the state's own objects, so it is good for one frame. */
  now(): Scene {
    const { recording, layout, view, colours, theme, found, origin, notes, selected, hover, cursor, rubber } = this.state;
    return {
      recording,
      layout,
      view,
      colours,
      theme,
      origin,
      notes,
      marks: { selected, hover, cursor, area: rubber ?? this.area() },
      arrows: this.arrows.inView(),
      matches: found?.matches,
      rare: this.rare,
      notable: this.notable,
      account: this.account,
      accountCpus: chosenCpus(this.state),
      code: this.code(),
      names: this.state.runningBy === "annotations" ? (this.nameRows ??= new NameRows(recording)) : undefined,
      dpr: window.devicePixelRatio || 1,
    };
  }

  private nameRows: NameRows | undefined;
  private codeColours: CodeColours | undefined;

  /** The colours of functions that rows have now; undefined: they have none, or samples are still being read. */
  get functionColours(): CodeColours | undefined {
    return this.state.runningBy === "functions" ? this.codeColours : undefined;
  }

  /** Samples, read when their functions or their ticks are to be seen. */
  private code(): CodeRows | undefined {
    const { recording, view, runningBy, theme } = this.state;
    const { index } = recording;
    const byFunction = runningBy === "functions";
    if (!index.call_paths) return undefined;
    const ofThread = index.call_paths.n_samples / Math.max(1, index.threads.length);
    const inView = (ofThread * (view.t1 - view.t0)) / recording.length;
    if (!byFunction && inView > view.width) return undefined;
    const paths = this.callPaths.peek(() => this.state.redraw());
    if (!paths) return undefined;
    if (byFunction && this.codeColours?.dark !== theme.dark) {
      this.codeColours = new CodeColours(paths, theme.dark);
      // Not while a frame is drawn.
      queueMicrotask(() => this.state.runningByChanged.emit());
    }
    return { paths, colours: byFunction ? this.codeColours : undefined };
  }

  /** Where the marked area is on the screen: its tracks may have moved, or be out of sight. */
  private area(): Scene["marks"]["area"] {
    const { area } = this.state;
    if (!area) return undefined;
    const ids = new Set(area.tracks);
    const shown = visibleTracks(this.state).filter(({ track }) => ids.has(track.id));
    if (shown.length === 0) return undefined;
    const y0 = Math.min(...shown.map(({ y }) => y));
    const y1 = Math.max(...shown.map(({ track, y }) => y + track.height));
    return { t0: area.t0, t1: area.t1, y0, y1 };
  }
}
