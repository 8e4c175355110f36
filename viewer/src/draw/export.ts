// The view as a picture in a file: the chart with the names of its rows, as SVG or PNG.
import { duration } from "../view/units";
import { Painter } from "./frame";
import { SvgPen, type Pen } from "./pen";
import { AXIS, visibleTracks, type Scene } from "./scene";

// Sizes in CSS pixels: the width of the names' column, and the height of the heading.
const NAMES = 220;
const TOP = 30;
const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

/** The title, and how much time is shown: a picture travels without its page. */
function heading(pen: Pen, scene: Scene, title: string, width: number): void {
  const { theme, view } = scene;
  pen.fillStyle = theme.background;
  pen.fillRect(0, 0, width, TOP);
  pen.textBaseline = "middle";
  pen.font = `600 13px ${FONT}`;
  pen.fillStyle = theme.text;
  // Letters that fit beside the text on the right, at 7.5 px each: a title is a command, which may be long.
  const room = Math.floor((width - 200) / 7.5);
  pen.fillText(title.length > room ? `${title.slice(0, room)}\u2026` : title, 8, TOP / 2);
  pen.font = `11px ${FONT}`;
  pen.fillStyle = theme.muted;
  const text = `${duration(view.t1 - view.t0)} shown \u00b7 kasuri`;
  pen.fillText(text, width - pen.measureText(text).width - 8, TOP / 2);
}

/** Names of the rows, as the page has them left of the chart. */
function names(pen: Pen, scene: Scene): void {
  const { theme, view, layout } = scene;
  pen.fillStyle = theme.background;
  pen.fillRect(0, 0, NAMES, view.height);
  pen.textBaseline = "middle";
  const bottom = AXIS + layout.pinnedHeight;
  // As in the chart: scrolled rows below the pinned part, each clipped to its own.
  for (const pinned of [false, true]) {
    pen.save();
    pen.beginPath();
    pen.rect(0, pinned ? AXIS : bottom, NAMES, pinned ? layout.pinnedHeight : Math.max(0, view.height - bottom));
    pen.clip();
    for (const { track, y } of visibleTracks(scene)) {
      if (track.pinned !== pinned) continue;
      const heads = track.kind === "group" || track.kind === "process";
      if (heads) {
        pen.fillStyle = theme.head;
        pen.fillRect(0, y, NAMES, track.height);
      }
      pen.fillStyle = theme.grid;
      pen.fillRect(0, y + track.height - 1, NAMES, 1);
      // Letters shrink with compact rows, to 7 px at the least.
      const size = Math.min(12, Math.max(7, track.height - 1));
      const middle = y + Math.min(13, track.height / 2);
      pen.font = `${heads ? "600 " : ""}${size}px ${FONT}`;
      pen.fillStyle = theme.text;
      const x = 8 + 12 * track.indent;
      pen.fillText(track.title, x, middle);
      // The detail (a thread's id) stands after the name where both fit, else it is left out.
      const at = x + pen.measureText(track.title).width + 6;
      pen.font = `${Math.min(10, size)}px ${FONT}`;
      pen.fillStyle = theme.muted;
      if (at + pen.measureText(track.detail).width < NAMES) pen.fillText(track.detail, at, middle + 0.5);
    }
    pen.restore();
  }
  pen.fillStyle = theme.bar;
  pen.fillRect(0, 0, NAMES, AXIS);
  pen.fillStyle = theme.line;
  pen.fillRect(0, AXIS - 1, NAMES, 1);
  pen.fillRect(NAMES - 1, 0, 1, view.height);
}

/** `scene` as SVG. */
export function svgOf(scene: Scene, title: string): string {
  const measuring = document.createElement("canvas").getContext("2d")!;
  // Three writers, for heading, names and chart. Ids of patterns and clips are global in SVG: each has a prefix.
  const parts = (["t", "n", "c"] as const).map((prefix) => new SvgPen(prefix, measuring));
  const [top, left, chart] = parts as [SvgPen, SvgPen, SvgPen];
  const width = NAMES + scene.view.width;
  heading(top, scene, title, width);
  names(left, scene);
  // A painter of its own: the one on the screen keeps its patterns and its image.
  new Painter().draw(chart, { ...scene, dpr: 1 });
  const height = TOP + scene.view.height;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT}">`,
    `<title>${title.replace(/&/g, "&amp;").replace(/</g, "&lt;")}</title>`,
    `<rect width="${width}" height="${height}" fill="${scene.theme.background}"/>`,
    `<g>${top.text()}</g>`,
    `<g transform="translate(0 ${TOP})">${left.text()}</g>`,
    // A nested svg element clips what lies outside the chart.
    `<svg x="${NAMES}" y="${TOP}" width="${scene.view.width}" height="${scene.view.height}">${chart.text()}</svg>`,
    "</svg>",
  ].join("\n");
}

/** `scene` as a canvas of at least two pixels for each of CSS. */
export function canvasOf(scene: Scene, title: string): HTMLCanvasElement {
  // Two pixels for each of CSS also on a coarse screen: a picture in a text is often enlarged or printed.
  const dpr = Math.max(2, scene.dpr);
  // The painter clears and clips its canvas, so each part has one of its own; `whole` puts them together.
  const make = (width: number, height: number): { canvas: HTMLCanvasElement; pen: CanvasRenderingContext2D } => {
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * dpr);
    canvas.height = Math.round(height * dpr);
    const pen = canvas.getContext("2d")!;
    pen.scale(dpr, dpr);
    return { canvas, pen };
  };
  const width = NAMES + scene.view.width;
  const whole = make(width, TOP + scene.view.height);
  heading(whole.pen, scene, title, width);
  const left = make(NAMES, scene.view.height);
  names(left.pen, scene);
  const chart = make(scene.view.width, scene.view.height);
  new Painter().draw(chart.pen, { ...scene, dpr });
  // From here on in device pixels, so that the parts are copied without being scaled.
  whole.pen.setTransform(1, 0, 0, 1, 0, 0);
  whole.pen.drawImage(left.canvas, 0, TOP * dpr);
  whole.pen.drawImage(chart.canvas, NAMES * dpr, TOP * dpr);
  return whole.canvas;
}

/** Gives the browser a file to save. The link is forgotten a while later: some browsers read it late. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
