// Curves of an analysis, in the page's colours.
import type { ChartRow } from "../data/index";
import { css, paletteColour } from "../draw/palette";
import { h, svg } from "./dom";

// Sizes in the picture's own units; LEFT and BOTTOM hold the axes' labels.
const WIDTH = 420;
const HEIGHT = 210;
const LEFT = 44;
const BOTTOM = 34;
/** Series are named things: they have colours of names, here those that differ most. */
const SERIES = [12, 9, 3, 18, 6, 0];
/** `dark` is the theme: curves are drawn anew in another. */
export function curves(chart: ChartRow, dark: boolean): HTMLElement {
  // Bands reach beyond their lines: the axes must hold both.
  const points = chart.series.flatMap((series) => [...series.points, ...series.band.flatMap(([low, high], i): [number, number][] => [[series.points[i]?.[0] ?? 0, low], [series.points[i]?.[0] ?? 0, high]])]);
  const xs = points.map(([x]) => x);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const y1 = Math.max(1e-12, ...points.map(([, y]) => y)) * 1.05;
  const x = (v: number): number => LEFT + ((v - x0) / Math.max(1e-12, x1 - x0)) * (WIDTH - LEFT - 10);
  const y = (v: number): number => HEIGHT - BOTTOM - (v / y1) * (HEIGHT - BOTTOM - 8);
  // `x` and `y` turn values into the picture's units, y upwards.
  const path = (line: [number, number][]): string => line.map(([a, b], i) => `${i === 0 ? "M" : "L"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const picture = svg("svg", { class: "curves", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": `${chart.caption}: ${chart.series.map((series) => `${series.name} ends at ${(series.points.at(-1)?.[1] ?? 0).toPrecision(3)}`).join(", ")}` });
  for (const tick of ticksOf(0, y1)) {
    picture.append(svg("line", { x1: LEFT, x2: WIDTH - 10, y1: y(tick), y2: y(tick), class: "gridline" }), svg("text", { x: LEFT - 6, y: y(tick) + 4, class: "tick", "text-anchor": "end" }, short(tick)));
  }
  for (const tick of ticksOf(x0, x1)) picture.append(svg("text", { x: x(tick), y: HEIGHT - BOTTOM + 15, class: "tick", "text-anchor": "middle" }, short(tick)));
  picture.append(svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 3, class: "tick", "text-anchor": "middle" }, chart.x_title));
  chart.series.forEach((series, i) => {
    const colour = css(paletteColour(SERIES[i % SERIES.length]!, dark));
    if (series.band.length > 0) {
      const low = series.band.map(([l], k): [number, number] => [series.points[k]?.[0] ?? 0, l]);
      const high = series.band.map(([, u], k): [number, number] => [series.points[k]?.[0] ?? 0, u]).reverse();
      picture.append(svg("path", { d: `${path(low)}${path(high).replace("M", "L")}Z`, fill: colour, opacity: 0.18 }));
    }
    if (series.style === "dots") series.points.forEach(([a, b]) => picture.append(svg("circle", { cx: x(a), cy: y(b), r: 3.5, fill: colour }, svg("title", {}, `${series.name}: ${short(b)} at ${short(a)}`))));
    else picture.append(svg("path", { d: path(series.points), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": series.style === "dashed" ? "5 4" : undefined }));
  });
  const legend = chart.series.map((series, i) => h("span", { class: "swatch" }, h("i", { style: `--c:${css(paletteColour(SERIES[i % SERIES.length]!, dark))}` }), series.name));
  return h("figure", {}, h("figcaption", {}, chart.caption, h("span", { class: "muted" }, ` ${chart.y_title}`)), picture as unknown as HTMLElement, h("div", { class: "chips" }, ...legend));
}

/** Round numbers between `from` and `to`, about five of them. */
function ticksOf(from: number, to: number): number[] {
  const raw = Math.max(1e-12, to - from) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) ?? raw;
  const out: number[] = [];
  for (let t = Math.ceil(from / step - 1e-9) * step; t <= to + 1e-9; t += step) out.push(t);
  return out;
}

/** Four digits: axes and tooltips need no more. */
function short(v: number): string {
  return String(Number(v.toPrecision(4)));
}
