// What the chart is drawn with: a canvas, or a writer of SVG that knows the same few words.

/** The part of a canvas's context that drawing uses. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "fillRect" | "strokeRect" | "fillText" | "measureText" | "beginPath" | "closePath" | "moveTo" | "lineTo" | "bezierCurveTo" | "rect" | "clip"
  | "fill" | "stroke" | "save" | "restore" | "setLineDash" | "setTransform"
> & {
  fillStyle: string | CanvasGradient | CanvasPattern;
  strokeStyle: string | CanvasGradient | CanvasPattern;
  lineWidth: number;
  font: string;
  textBaseline: CanvasTextBaseline;
  globalAlpha: number;
};

// Names are the program's: they may hold anything.
const escape = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
// A hundredth of a pixel is as exact as anybody sees, and a third of the length.
const r = (v: number): string => String(Math.round(v * 100) / 100);

/** Writes what is drawn as SVG elements. */
export class SvgPen implements Pen {
  fillStyle: Pen["fillStyle"] = "#000";
  strokeStyle: Pen["strokeStyle"] = "#000";
  lineWidth = 1;
  font = "11px sans-serif";
  textBaseline: CanvasTextBaseline = "alphabetic";
  globalAlpha = 1;
  private dash: number[] = [];
  /** Elements in drawing order; `defs` has the patterns and clips that they refer to by id. */
  private readonly parts: string[] = [];
  private readonly defs: string[] = [];
  /** The path since `beginPath`, in the letters of SVG's `d` attribute. */
  private path = "";
  private clips = 0;
  /** What `restore` brings back, one entry for each `save`; `depth` is the number of open groups. */
  private readonly stack: { alpha: number; font: string; dash: number[]; depth: number }[] = [];
  private depth = 0;

  /** `prefix` keeps ids apart from those of other parts of the picture. */
  constructor(
    private readonly prefix: string,
    private readonly measuring: CanvasRenderingContext2D,
  ) {}

  /** All that was drawn. */
  text(): string {
    return `<defs>${this.defs.join("")}</defs>${this.parts.join("\n")}${"</g>".repeat(this.depth)}`;
  }

  /** A row of pixels 0xAABBGGRR, stretched: neighbours of one colour are one rectangle. */
  pixels(row: Uint32Array, x: number, y: number, width: number, height: number): void {
    const scale = width / row.length;
    for (let from = 0; from < row.length; ) {
      const ink = row[from]!;
      let to = from + 1;
      while (to < row.length && row[to] === ink) to++;
      const alpha = ink >>> 24;
      if (alpha > 0) {
        const rgb = ((ink & 255) << 16) | (ink & 0xff00) | ((ink >> 16) & 255);
        const opacity = alpha < 255 ? ` fill-opacity="${r(alpha / 255)}"` : "";
        this.parts.push(`<rect x="${r(x + from * scale)}" y="${r(y)}" width="${r((to - from) * scale)}" height="${r(height)}" fill="#${rgb.toString(16).padStart(6, "0")}"${opacity}/>`);
      }
      from = to;
    }
  }

  /** Slanted lines as a fill. */
  hatch(colour: string, size: number): string {
    const id = `${this.prefix}h${this.defs.length}`;
    this.defs.push(`<pattern id="${id}" width="${size}" height="${size}" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="${size / 3}" height="${size}" fill="${colour.slice(0, 7)}" fill-opacity="${r(parseInt(colour.slice(7, 9) || "ff", 16) / 255)}"/></pattern>`);
    return `url(#${id})`;
  }

  /** Fill or stroke as attributes. */
  private paint(kind: "fill" | "stroke"): string {
    const style = kind === "fill" ? this.fillStyle : this.strokeStyle;
    // A canvas knows #rrggbbaa, many readers of SVG do not.
    const text = typeof style === "string" ? style : "none";
    const alpha = /^#[0-9a-f]{8}$/i.test(text) ? parseInt(text.slice(7), 16) / 255 : 1;
    const opacity = this.globalAlpha * alpha;
    return `${kind}="${alpha < 1 ? text.slice(0, 7) : text}"${opacity < 1 ? ` ${kind}-opacity="${r(opacity)}"` : ""}`;
  }

  /** A stroke with its width and dashes. */
  private line(): string {
    const dash = this.dash.length > 0 ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    return `${this.paint("stroke")} stroke-width="${r(this.lineWidth)}"${dash}`;
  }

  setTransform(): void {
    // The picture is in CSS pixels already.
  }

  setLineDash(dash: number[]): void {
    this.dash = dash;
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    if (width > 0 && height > 0) this.parts.push(`<rect x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}" ${this.paint("fill")}/>`);
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(`<rect x="${r(x)}" y="${r(y)}" width="${r(Math.max(0, width))}" height="${r(Math.max(0, height))}" fill="none" ${this.line()}/>`);
  }

  fillText(text: string, x: number, y: number): void {
    const size = /(\d+)px/.exec(this.font)?.[1] ?? "11";
    const weight = /^(600|bold)/.test(this.font) ? ' font-weight="600"' : "";
    // Not every reader of SVG knows dominant-baseline: a third of the letters' size below the middle is where they stand.
    const down = this.textBaseline === "middle" ? Number(size) * 0.35 : 0;
    this.parts.push(`<text x="${r(x)}" y="${r(y + down)}" font-size="${size}"${weight} ${this.paint("fill")}>${escape(text)}</text>`);
  }

  measureText(text: string): TextMetrics {
    this.measuring.font = this.font;
    return this.measuring.measureText(text);
  }

  beginPath(): void {
    this.path = "";
  }

  closePath(): void {
    this.path += "Z";
  }

  moveTo(x: number, y: number): void {
    this.path += `M${r(x)} ${r(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.path += `L${r(x)} ${r(y)}`;
  }

  bezierCurveTo(a: number, b: number, c: number, d: number, x: number, y: number): void {
    this.path += `C${r(a)} ${r(b)} ${r(c)} ${r(d)} ${r(x)} ${r(y)}`;
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.path += `M${r(x)} ${r(y)}h${r(width)}v${r(height)}h${r(-width)}Z`;
  }

  clip(): void {
    const id = `${this.prefix}c${this.clips++}`;
    this.defs.push(`<clipPath id="${id}"><path d="${this.path}"/></clipPath>`);
    this.parts.push(`<g clip-path="url(#${id})">`);
    this.depth++;
  }

  fill(): void {
    this.parts.push(`<path d="${this.path}" ${this.paint("fill")}/>`);
  }

  stroke(): void {
    this.parts.push(`<path d="${this.path}" fill="none" ${this.line()}/>`);
  }

  save(): void {
    this.stack.push({ alpha: this.globalAlpha, font: this.font, dash: this.dash, depth: this.depth });
  }

  restore(): void {
    const saved = this.stack.pop();
    if (!saved) return;
    this.parts.push("</g>".repeat(this.depth - saved.depth));
    this.depth = saved.depth;
    this.globalAlpha = saved.alpha;
    this.font = saved.font;
    this.dash = saved.dash;
  }
}
