// One frame of the chart: a function of the recording, the layout, the viewport and what is selected.
import { kindOf, nameOf } from "../data/value";
import { SLICE_KINDS, Kind, SliceKind, State, STATE_NAMES, type LossRow } from "../data/index";
import { itemsBetween, unitsBetween } from "../data/query";
import type { Line } from "../data/recording";
import type { Row, Track } from "../view/layout";
import { nsPerPixel, xOf, type Viewport } from "../view/viewport";
import { instant, tickLabel, tickStep } from "../view/units";
import { shortName } from "../view/code-name";
import { drawArea } from "./area";
import { drawArrows } from "./arrows";
import { colourByFunction, colourCpuByFunction, ticksOf, type CodeColours, type FunctionRun } from "./code-rows";
import { drawCounter } from "./counter";
import { abgr, paintLine, type Span, type Style } from "./lines";
import { colourByName, NUMBERS, numberOf, type NameFrame, type NameRun } from "./name-rows";
import { css, isWait, meaningColour, onColour, stateColour } from "./palette";
import { SvgPen, type Pen } from "./pen";
import { AXIS, threadName, visibleRows, visibleTracks, type Placed, type Scene } from "./scene";

// Labels of one frame: a screen has no room for more that could be read, and measuring text is slow.
const MAX_LABELS = 3000;
const FONT = "11px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

/** Text that is wanted inside an item: the item's ends in CSS pixels from the chart's left edge. */
interface Label {
  x0: number;
  x1: number;
  value: number;
  placed: Placed;
  /** A function that ran, in its colour; else the text and the colour are those of the value. */
  fn?: number;
  /** Whether the value is a slice's, in the row of a CPU. */
  named?: boolean;
}

/** Scratch that frames share. */
export class Painter {
  /** Holds `image` while its rows are stretched over the chart; a canvas cannot draw an ImageData scaled. */
  private readonly scratch = document.createElement("canvas");
  private image: ImageData | undefined;
  private readonly hatches = new Map<string, CanvasPattern>();

  /** Draws `scene`; false when something is still being decoded. */
  draw(ctx: Pen, scene: Scene): boolean {
    const { view, theme, dpr } = scene;
    // From here on one unit is one CSS pixel; only `rows` counts device pixels.
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.fillStyle = theme.background;
    ctx.fillRect(0, 0, view.width, view.height);
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    this.backdrop(ctx, scene);
    let complete = true;
    const { pinnedHeight } = scene.layout;
    const bottom = AXIS + pinnedHeight;
    // Scrolled rows first, then the pinned ones, each clipped to its part: scrolled rows may reach under pinned ones.
    for (const pinned of [false, true]) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(0, pinned ? AXIS : bottom, view.width, pinned ? pinnedHeight : Math.max(0, view.height - bottom));
      ctx.clip();
      complete = this.rows(ctx, scene, visibleRows(scene, pinned)) && complete;
      for (const { track, y } of visibleTracks(scene)) {
        if (track.kind !== "account" || track.pinned !== pinned) continue;
        complete = drawArea(ctx, scene.account, scene.accountCpus, view, theme, y + 3, track.height - 7, dpr) && complete;
      }
      ctx.restore();
    }
    if (pinnedHeight > 0) {
      ctx.fillStyle = theme.line;
      ctx.fillRect(0, bottom - 2, view.width, 2);
    }
    // What lies over all rows, from bottom to top: gaps, the selection, arrows, and the axis.
    this.losses(ctx, scene);
    marks(ctx, scene);
    drawArrows(ctx, scene.arrows, scene);
    axis(ctx, scene);
    return complete;
  }

  /** Headings, lines between rows and ticks of the axis, below everything else. */
  private backdrop(ctx: Pen, scene: Scene): void {
    const { theme, view } = scene;
    for (const { track, y } of visibleTracks(scene)) {
      if (track.kind === "group" || track.kind === "process") {
        ctx.fillStyle = theme.head;
        ctx.fillRect(0, y, view.width, track.height);
      }
      ctx.fillStyle = theme.grid;
      ctx.fillRect(0, y + track.height - 1, view.width, 1);
    }
    ctx.fillStyle = theme.grid;
    const [first, step] = ticks(view, scene.origin);
    for (let t = first; t < view.t1; t += step) ctx.fillRect(Math.round(xOf(view, t)), AXIS, 1, view.height);
  }

  /** Paints the rows into one image and stretches each to its height; labels and what is drawn item by item come on top. */
  private rows(ctx: Pen, scene: Scene, placed: Placed[]): boolean {
    if (placed.length === 0) return true;
    const { view, dpr, recording } = scene;
    // One image row for each part of each chart row: first all bodies, then all edges, then all marks (draw/lines.ts).
    // Its width is in device pixels, so that on a fine screen a pixel of the image is a pixel of the screen.
    const width = Math.max(1, Math.round(view.width * dpr));
    const rows = placed.length;
    const image = this.buffer(width, 3 * rows);
    const pixels = new Uint32Array(image.data.buffer, 0, image.width * 3 * rows);
    // The image is kept between frames: what the last one painted must go, 0 is transparent.
    pixels.fill(0);
    const edgePixels = pixels.subarray(image.width * rows);
    const markPixels = pixels.subarray(image.width * 2 * rows);
    const labels: Label[] = [];
    const span: Span = { t0: view.t0, t1: view.t1, width, length: recording.length };
    const byFunction = scene.code?.colours;
    const byName = scene.names?.frame(span);
    let complete = true;
    placed.forEach((at, r) => {
      const { line } = at.row;
      if (line.kind === Kind.Counter || line.kind === Kind.Instant) return;
      // Of a CPU's threads; functions and annotations come before them.
      const names: { x0: number; x1: number; value: number }[] = [];
      const target = {
        body: pixels,
        edge: edgePixels,
        mark: markPixels,
        // The image may be wider than the chart was asked for, so rows lie `image.width` apart, not `width`.
        at: r * image.width,
        // Device pixels; below them no text would fit: a state's name is longer than that of most slices.
        labelWidth: line.kind === Kind.State ? 44 * dpr : 22 * dpr,
        label: (x0: number, x1: number, value: number) => {
          // Where functions are shown, they say what ran.
          if (byFunction && line.kind === Kind.State && value === State.Running) return;
          if ((byFunction || byName) && line.kind === Kind.Cpu) names.push({ x0, x1, value });
          else if (labels.length < MAX_LABELS) labels.push({ x0: x0 / dpr, x1: x1 / dpr, value, placed: at });
        },
      };
      const ok = paintLine(line, span, styleOf(scene, line), recording, target);
      complete &&= ok;
      const body = pixels.subarray(target.at, target.at + width);
      const add = (x0: number, x1: number, value: number, more: { fn?: number; named?: boolean } = {}): void => {
        if (x1 - x0 >= 44 * dpr && labels.length < MAX_LABELS) labels.push({ x0: x0 / dpr, x1: x1 / dpr, value, placed: at, ...more });
      };
      let runs: { x0: number; x1: number }[] = [];
      if (byName && line.kind === Kind.Cpu) {
        const named = nameRuns(scene, byName, line, body);
        for (const { x0, x1, value } of named) add(x0, x1, value, { named: true });
        runs = named;
      } else if (byFunction && (line.kind === Kind.State || line.kind === Kind.Cpu)) {
        const found = functionRuns(scene, line, span, body, byFunction);
        for (const { x0, x1, fn } of found) add(x0, x1, line.kind === Kind.State ? State.Running : 0, { fn });
        runs = found;
      }
      for (const { x0, x1, value } of names) if (!runs.some((run) => run.x0 < x1 && run.x1 > x0)) add(x0, x1, value);
    });
    complete &&= byName?.complete ?? true;
    // Body, edge, mark: height on the screen and first row of the image. The edge of a thin row must leave its body to be seen.
    const parts = ({ height }: Row): [number, number][] => (height > 10 ? [[height - 1, 0], [4, rows], [2, 2 * rows]] : [[height, 0], [height > 5 ? 2 : 1, rows], [1, 2 * rows]]);
    // SVG gets the pixels themselves (below); a canvas needs them in a canvas first.
    if (!(ctx instanceof SvgPen)) this.scratch.getContext("2d")!.putImageData(image, 0, 0, 0, 0, image.width, 3 * rows);
    placed.forEach(({ row, y }, r) => {
      if (row.line.kind === Kind.Counter || row.line.kind === Kind.Instant) return;
      for (const [height, from] of parts(row)) {
        if (ctx instanceof SvgPen) ctx.pixels(pixels.subarray((from + r) * image.width, (from + r) * image.width + width), 0, y, view.width, height);
        else this.blit(ctx as CanvasRenderingContext2D, from + r, width, y, view.width, height);
      }
    });
    for (const label of labels) this.label(ctx, scene, label);
    for (const at of placed) sampleTicks(ctx, scene, at);
    // Counters and instants are drawn item by item: what matters there is a height or a shape, not a colour.
    for (const { row, y } of placed) {
      if (row.line.kind === Kind.Counter) complete = drawCounter(ctx, scene, row, y) && complete;
      else if (row.line.kind === Kind.Instant) complete = instants(ctx, scene, row, y) && complete;
    }
    return complete;
  }

  /** The pixels of one line in the scene's view, as they would be drawn: for tests of what must not be hidden. */
  pixelsOf(scene: Scene, line: Line): { body: Uint32Array; edge: Uint32Array; mark: Uint32Array; complete: boolean } {
    const { view, recording } = scene;
    const width = Math.round(view.width);
    const [body, edge, mark] = [0, 1, 2].map(() => new Uint32Array(width)) as [Uint32Array, Uint32Array, Uint32Array];
    const span: Span = { t0: view.t0, t1: view.t1, width, length: recording.length };
    const target = { body, edge, mark, at: 0, labelWidth: Infinity, label: () => undefined };
    const complete = paintLine(line, span, styleOf(scene, line), recording, target);
    return { body, edge, mark, complete };
  }

  /** Stretches row `r` of the image over the width and height of a row of the chart. */
  private blit(ctx: CanvasRenderingContext2D, r: number, width: number, y: number, to: number, height: number): void {
    // Smoothing would blend a pixel with its neighbours, and a rare item of one pixel would fade.
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(this.scratch, 0, r, width, 1, 0, y, to, height);
  }

  private buffer(width: number, height: number): ImageData {
    // Made anew only for another width or more rows: scrolling changes the number of rows with every frame.
    if (this.image?.width !== width || this.image.height < height) {
      this.image = new ImageData(width, Math.max(height, 64));
      this.scratch.width = width;
      this.scratch.height = this.image.height;
    }
    return this.image;
  }

  /** The text inside an item, as much as fits; waits get their hatch here, where they are wide enough for one. */
  private label(ctx: Pen, scene: Scene, { x0, x1, value, placed, fn, named }: Label): void {
    const kind = named ? Kind.Slice : placed.row.line.kind;
    const { y } = placed;
    const height = placed.row.height - 1;
    const ink = fn === undefined ? undefined : scene.code?.colours?.inks.of(fn);
    const rgb = ink === undefined ? scene.colours.of(kind, value) : ((ink & 255) << 16) | (ink & 0xff00) | ((ink >> 16) & 255);
    if ((kind === Kind.Slice && isWait(kindOf(value))) || placed.row.role === "wait") {
      ctx.fillStyle = this.hatch(ctx, scene.theme.dark ? "#00000055" : "#ffffff88", 6);
      ctx.fillRect(x0, y, x1 - x0, height);
    }
    // Compact rows are too low for letters.
    if (height < 10) return;
    const text = fn === undefined ? labelText(scene, kind, value) : shortName(scene.code?.paths.functions[fn]?.name ?? "");
    // An item that began before the view has its text at the view's edge, where it can be read.
    const left = Math.max(x0, 0) + 4;
    const room = Math.min(x1, scene.view.width) - left - 3;
    const cut = fit(ctx, text, room);
    if (cut === "") return;
    // The body was dimmed where the search does not match (draw/lines.ts); the text on it is to be dimmed too.
    const dimmed = kind === Kind.Slice && scene.matches?.[nameOf(value)] === 0;
    ctx.fillStyle = dimmed ? scene.theme.muted : onColour(rgb);
    ctx.font = height < 12 ? "9px system-ui, sans-serif" : FONT;
    ctx.fillText(cut, left, y + height / 2 + 0.5);
    ctx.font = FONT;
  }

  /** Hatches where events were lost: what is drawn there is not all that happened. */
  private losses(ctx: Pen, scene: Scene): void {
    const { view, recording, theme } = scene;
    const { losses } = recording.index;
    if (losses.length === 0) return;
    const pattern = this.hatch(ctx, `${css(meaningColour("eventsLost", theme.dark))}cc`, 7);
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, AXIS, view.width, view.height);
    ctx.clip();
    for (const { track, y } of visibleTracks(scene)) {
      for (const loss of losses) {
        if (!concerns(loss, track)) continue;
        const x0 = xOf(view, loss.from);
        // At least 3 px wide, so that a short gap is seen at any zoom.
        const x1 = Math.max(xOf(view, loss.to), x0 + 3);
        if (x1 < 0 || x0 > view.width) continue;
        ctx.fillStyle = pattern;
        ctx.fillRect(x0, y + 1, x1 - x0, track.height - 2);
      }
    }
    ctx.restore();
  }

  /** Slanted lines as a fill; made once for each colour. */
  private hatch(ctx: Pen, colour: string, size: number): CanvasPattern | string {
    if (ctx instanceof SvgPen) return this.svgHatch(ctx, colour, size);
    const key = `${colour}/${size}`;
    let pattern = this.hatches.get(key);
    if (!pattern) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = size;
      const pen = tile.getContext("2d")!;
      pen.strokeStyle = colour;
      pen.lineWidth = size / 4;
      pen.beginPath();
      // Three strokes: the outer ones fill the corners, so that the tiles join without a seam.
      for (const from of [-size, 0, size]) {
        pen.moveTo(from, size);
        pen.lineTo(from + size, 0);
      }
      pen.stroke();
      const made = (ctx as CanvasRenderingContext2D).createPattern(tile, "repeat");
      if (!made) return colour;
      pattern = made;
      this.hatches.set(key, pattern);
    }
    return pattern;
  }

  /** Ids of the patterns in the picture that is being written, by colour and size. */
  private readonly svgHatches = new Map<string, string>();

  /** The same in a picture that is saved. */
  private svgHatch(pen: SvgPen, colour: string, size: number): string {
    const key = `${colour}/${size}`;
    const known = this.svgHatches.get(key) ?? pen.hatch(colour, size);
    this.svgHatches.set(key, known);
    return known;
  }
}

/** Begin and end of the item of `line`, of states or of a CPU, at `t`, where it is decoded. */
function stateAt({ recording }: Scene, line: Line, t: number): [number, number] | undefined {
  const [first, last] = unitsBetween(line, t, t);
  const unit = first < last ? recording.peek(line, last - 1) : undefined;
  if (!unit) return undefined;
  const [i0, i1] = itemsBetween(unit, t, t);
  return i0 < i1 ? [unit.start[i1 - 1]!, unit.end[i1 - 1]!] : undefined;
}

/**
 * The colour of a thread on a CPU where colours are those of functions or annotations, and it has none: of the recorded program that of
 * running, since its own would look like a function's; all others are pale.
 */
function plainColour({ recording, colours, theme }: Scene, thread: number): number {
  const { threads, processes } = recording.index;
  const isOwn = processes[threads[thread]?.process ?? -1]?.target === true;
  return isOwn ? stateColour(State.Running, theme.dark) : colours.of(Kind.Cpu, thread + 1);
}

/** Gives the pixels of a CPU's row the colours of what was annotated. */
function nameRuns(scene: Scene, names: NameFrame, line: Line, body: Uint32Array): NameRun[] {
  const { colours, matches } = scene;
  const plain = (thread: number): number => plainColour(scene, thread);
  return colourByName(body, names.keys(line), (value) => colours.of(Kind.Slice, value), plain, (value) => matches?.[nameOf(value)] === 0);
}

/** Gives the running pixels of a row of states or of a CPU the colours of functions. */
function functionRuns(scene: Scene, line: Line, span: Span, body: Uint32Array, colours: CodeColours): FunctionRun[] {
  const { paths } = scene.code!;
  const [begun, until] = [stateAt(scene, line, span.t0)?.[0], stateAt(scene, line, span.t1)?.[1]];
  if (line.kind === Kind.State) return colourByFunction(body, span, paths, colours, line.owner, begun, until);
  const [threads, edge, mark] = [0, 1, 2].map(() => new Uint32Array(span.width)) as [Uint32Array, Uint32Array, Uint32Array];
  const style: Style = { ...styleOf(scene, line), inks: NUMBERS, matches: undefined };
  paintLine(line, span, style, scene.recording, { body: threads, edge, mark, at: 0, labelWidth: Infinity, label: () => undefined });
  // A pixel with nothing in it is 0, as a thread that is not known.
  // A thread's number as a colour is read back: so the rules of pixels are those of the row itself.
  for (let x = 0; x < span.width; x++) {
    threads[x] = numberOf(threads[x]!);
    if (threads[x] !== 0) body[x] = abgr(plainColour(scene, threads[x]! - 1), body[x]! >>> 24);
  }
  return colourCpuByFunction(body, threads, span, paths, colours, begun, until);
}

/** A tick at the foot of a thread's states for each sample, where there is room. */
function sampleTicks(ctx: Pen, { code, view, theme }: Scene, { row, y }: Placed): void {
  if (!code || row.line.kind !== Kind.State || row.height < 6) return;
  ctx.fillStyle = theme.text;
  for (const x of ticksOf(code.paths, row.line.owner, view.t0, view.t1, view.width)) ctx.fillRect(Math.round(x), y + row.height - 4, 1, 3);
}

/** Whether a loss leaves holes in a track. */
function concerns(loss: LossRow, track: Track): boolean {
  // A loss with neither CPU nor thread concerns the whole recording: it is shown on every CPU.
  if (track.kind === "cpu") return loss.cpu === track.ref || (loss.cpu < 0 && loss.thread < 0);
  if (track.kind === "thread") return loss.thread === track.ref;
  return false;
}

// Being preempted is often short, and is what people look for: it is never merged away.
const RARE_STATES = Uint8Array.from(STATE_NAMES, (_, state) => (state === State.Preempted ? 1 : 0));
const NONE: never[] = [];

/** How a line is painted: its colours, what is looked for, what must not be merged away. */
function styleOf(scene: Scene, line: Line): Style {
  const { colours, matches, rare, theme } = scene;
  // States, CPUs and locks store no name in their value, so a search by name cannot match them.
  const named = line.kind !== Kind.State && line.kind !== Kind.Cpu && line.kind !== Kind.Lock;
  return {
    inks: colours.inks(line.kind),
    matches: named ? matches : undefined,
    rare: line.kind === Kind.Slice ? rare : line.kind === Kind.State ? RARE_STATES : undefined,
    notable: scene.notable.get(line.ix) ?? NONE,
    background: parseInt(theme.background.slice(1), 16),
    text: parseInt(theme.text.slice(1), 16),
  };
}

/** Text inside an item. */
function labelText(scene: Scene, of: Kind, value: number): string {
  const { recording } = scene;
  if (of === Kind.State) return STATE_NAMES[value] ?? "";
  if (of === Kind.Cpu || of === Kind.Lock) return threadName(recording, value - 1);
  const name = recording.text(nameOf(value));
  const kind = kindOf(value);
  // Work has its name alone; a wait without a name has its kind, and a hold says that it is one.
  if (of !== Kind.Slice || kind === SliceKind.Work || kind === SliceKind.TaskRun) return name;
  return name === "" ? (SLICE_KINDS[kind] ?? "") : kind === SliceKind.LockHold ? `${name} (held)` : name;
}

const widths = new Map<string, number>();

/** Measuring text is slow, and frames repeat it: widths are kept, up to a limit. */
function measured(ctx: Pen, text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size > 20_000) widths.clear();
    width = ctx.measureText(text).width;
    widths.set(text, width);
  }
  return width;
}

/** `text`, shortened to fit into `room`; "" when not even two letters do. */
export function fit(ctx: Pen, text: string, room: number): string {
  const width = measured(ctx, text);
  if (width <= room) return text;
  // By the mean width of a letter, less the room for the ellipsis: measuring every prefix would be exact and slow.
  const letters = Math.floor((text.length * (room - 8)) / width);
  return letters < 2 ? "" : `${text.slice(0, letters)}\u2026`;
}

/** First tick and step; ticks are round numbers on an axis that begins at `origin`. */
function ticks(view: Viewport, origin: number): [number, number] {
  // 110 px between two ticks leave room for a label of ten digits.
  const step = tickStep(nsPerPixel(view) * 110);
  return [origin + Math.ceil((view.t0 - origin) / step) * step, step];
}

/** The time axis, with the time under the pointer. */
function axis(ctx: Pen, scene: Scene): void {
  const { view, theme, origin } = scene;
  ctx.fillStyle = theme.bar;
  ctx.fillRect(0, 0, view.width, AXIS - 1);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, AXIS - 1, view.width, 1);
  const [first, step] = ticks(view, origin);
  const minor = step / 5;
  // Small ticks begin a step earlier, or the part left of the first label would have none.
  for (let t = first - step; t < view.t1; t += minor) ctx.fillRect(Math.round(xOf(view, t)), AXIS - 5, 1, 4);
  for (let t = first; t < view.t1; t += step) {
    const x = Math.round(xOf(view, t));
    ctx.fillStyle = theme.muted;
    ctx.fillRect(x, AXIS - 10, 1, 9);
    ctx.fillStyle = theme.text;
    ctx.fillText(tickLabel(t - origin, step, view.t1 - origin), x + 4, 11);
  }
  noteFlags(ctx, scene);
  const { cursor } = scene.marks;
  if (cursor !== undefined) {
    const text = instant(cursor - origin);
    const width = ctx.measureText(text).width + 10;
    // The time under the pointer stands above it, but not beyond the ends of the axis.
    const x = Math.min(Math.max(0, xOf(view, cursor) - width / 2), view.width - width);
    ctx.fillStyle = theme.accent;
    ctx.fillRect(x, 3, width, 18);
    ctx.fillStyle = theme.dark ? "#0b1118" : "#ffffff";
    ctx.fillText(text, x + 5, 12.5);
  }
}

/** Notes: a flag on the axis with its number, and its text where there is room. */
function noteFlags(ctx: Pen, scene: Scene): void {
  const { view, theme, notes } = scene;
  notes.forEach((note, i) => {
    const x0 = xOf(view, note.t0);
    const x1 = xOf(view, note.t1);
    if (x1 < -8 || x0 > view.width) return;
    ctx.fillStyle = theme.note;
    ctx.globalAlpha = 0.1;
    if (note.t1 > note.t0) ctx.fillRect(x0, AXIS, x1 - x0, view.height);
    ctx.globalAlpha = 1;
    ctx.fillRect(Math.round(x0), AXIS - 15, 1, view.height);
    const text = note.text === "" ? String(i + 1) : `${i + 1} ${note.text.length > 42 ? `${note.text.slice(0, 40)}\u2026` : note.text}`;
    ctx.fillRect(Math.round(x0), AXIS - 15, ctx.measureText(text).width + 10, 14);
    ctx.fillStyle = theme.onNote;
    ctx.fillText(text, Math.round(x0) + 5, AXIS - 8);
  });
}

/** The pointer's line, the marked area, and frames around what is hovered and selected. */
function marks(ctx: Pen, scene: Scene): void {
  const { view, theme, marks } = scene;
  if (marks.cursor !== undefined) {
    ctx.fillStyle = theme.dark ? "#7ab4ff66" : "#0b57d055";
    ctx.fillRect(Math.round(xOf(view, marks.cursor)), AXIS, 1, view.height);
  }
  if (marks.area) {
    const { t0, t1, y0, y1 } = marks.area;
    const x0 = xOf(view, t0);
    const x1 = xOf(view, t1);
    ctx.fillStyle = theme.dark ? "#7ab4ff2e" : "#0b57d01f";
    ctx.fillRect(x0, Math.max(AXIS, y0), x1 - x0, y1 - Math.max(AXIS, y0));
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 1;
    ctx.strokeRect(x0 + 0.5, Math.max(AXIS, y0) + 0.5, x1 - x0 - 1, y1 - Math.max(AXIS, y0) - 1);
  }
  // A line may be on the screen twice, pinned and in its place: both are framed.
  for (const [item, width] of [[marks.hover, 1], [marks.selected, 2]] as const) {
    if (!item) continue;
    for (const { row, y } of placedRows(scene, item.line)) {
      // Cut 4 px outside the view: zoomed in, an item's ends may lie millions of pixels away.
      const x0 = Math.max(-4, xOf(view, item.start));
      const x1 = Math.min(view.width + 4, Math.max(xOf(view, item.end), x0 + 2));
      if (x1 < 0 || x0 > view.width) continue;
      ctx.strokeStyle = theme.text;
      ctx.lineWidth = width;
      ctx.strokeRect(x0, y, x1 - x0, row.height - 1);
    }
  }
}

/** Where a line is on the screen: at most two places, pinned and not. */
function placedRows(scene: Scene, line: Line): Placed[] {
  const bottom = AXIS + scene.layout.pinnedHeight;
  return [true, false]
    .flatMap((pinned) => visibleRows(scene, pinned))
    .filter((placed) => placed.row.line === line && (placed.track.pinned || placed.y >= bottom));
}

/** Instants: a mark for each, a name where there is room. */
function instants(ctx: Pen, scene: Scene, row: Row, y: number): boolean {
  const { recording, view, colours, theme } = scene;
  const { line } = row;
  let complete = true;
  // Instants closer than a pixel are drawn once: more marks at one place look the same and take time.
  let lastX = -Infinity;
  const middle = y + row.height / 2;
  for (let u = 0; u < line.nUnits; u++) {
    if (line.to[u]! < view.t0 || line.from[u]! > view.t1) continue;
    const unit = recording.want(line, u);
    if (!unit) {
      complete = false;
      continue;
    }
    for (let i = 0; i < unit.n; i++) {
      const t = unit.start[i]!;
      if (t < view.t0 || t > view.t1) continue;
      const x = xOf(view, t);
      if (x - lastX < 1) continue;
      // The name may reach to the next mark.
      const next = i + 1 < unit.n ? xOf(view, unit.start[i + 1]!) : view.width;
      ctx.fillStyle = css(colours.of(line.kind, unit.value[i]!));
      ctx.beginPath();
      ctx.moveTo(x, middle - 5);
      ctx.lineTo(x + 4, middle);
      ctx.lineTo(x, middle + 5);
      ctx.lineTo(x - 4, middle);
      ctx.fill();
      const text = fit(ctx, recording.text(nameOf(unit.value[i]!)), next - x - 12);
      if (text !== "" && next - x > 30) {
        ctx.fillStyle = theme.text;
        ctx.fillText(text, x + 7, middle + 0.5);
      }
      lastX = x;
    }
  }
  return complete;
}
