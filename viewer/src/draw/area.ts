// The account over time as a stacked area.
import type { Account } from "../data/account";
import type { Viewport } from "../view/viewport";
import { classColour, classOrder, css, type Theme } from "./palette";
import { SvgPen, type Pen } from "./pen";

/** Paints pixels of an area `width` x `height`; all classes of a pixel column from the bottom up. */
function image(shares: Float32Array, classes: string[], width: number, height: number, dark: boolean): ImageData {
  const picture = new ImageData(width, height);
  const pixels = new Uint32Array(picture.data.buffer);
  // Class numbers in drawing order; `inks` has their colours in that order, 0xAABBGGRR as ImageData wants them.
  const order = classOrder(classes);
  const inks = order.map((c) => {
    const rgb = classColour(classes[c], dark);
    return (0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
  });
  for (let x = 0; x < width; x++) {
    // Rounding the sums, and not each share, makes every column exactly `height` pixels when the shares add up to 1.
    let sum = 0;
    let y = height;
    for (let k = 0; k < order.length; k++) {
      const share = shares[x * order.length + order[k]!]!;
      if (share === 0) continue;
      sum += share;
      const top = Math.max(0, Math.round(height * (1 - sum)));
      for (let at = top; at < y; at++) pixels[at * width + x] = inks[k]!;
      y = Math.min(y, top);
    }
  }
  return picture;
}

// One canvas for all frames. Unit tests run without a document and draw no pixels.
const scratch = typeof document === "undefined" ? undefined : document.createElement("canvas");

/** Draws the account between the view's ends at `y`; false when more of it is being read. */
export function drawArea(pen: Pen, account: Account, cpus: Set<number> | undefined, view: Viewport, theme: Theme, y: number, height: number, dpr: number): boolean {
  // Sampled once for each device pixel of the width.
  const width = Math.max(1, Math.round(view.width * dpr));
  const rows = Math.max(1, Math.round(height * dpr));
  const { shares, complete } = account.shares(view.t0, view.t1, width, cpus);
  if (pen instanceof SvgPen) {
    outlines(pen, shares, account.classes, width, view.width, y, height, theme.dark);
    return complete;
  }
  if (!scratch) return complete;
  if (scratch.width !== width || scratch.height !== rows) {
    scratch.width = width;
    scratch.height = rows;
  }
  scratch.getContext("2d")!.putImageData(image(shares, account.classes, width, rows, theme.dark), 0, 0);
  (pen as CanvasRenderingContext2D).drawImage(scratch, 0, y, view.width, height);
  return complete;
}

/** The same as shapes: one for each class. */
function outlines(pen: SvgPen, shares: Float32Array, classes: string[], n: number, width: number, y: number, height: number, dark: boolean): void {
  // Where the next class begins in each column, as a share of the height from the bottom.
  const below = new Float32Array(n);
  for (const c of classOrder(classes)) {
    // A class that is nowhere in view would be a path of zero height.
    let any = false;
    for (let x = 0; x < n && !any; x++) any = shares[x * classes.length + c]! > 0;
    if (!any) continue;
    pen.fillStyle = css(classColour(classes[c], dark));
    pen.beginPath();
    const at = (x: number): number => (x / n) * width;
    pen.moveTo(0, y + height * (1 - below[0]!));
    for (let x = 0; x < n; x++) {
      const top = y + height * (1 - below[x]! - shares[x * classes.length + c]!);
      pen.lineTo(at(x), top);
      pen.lineTo(at(x + 1), top);
    }
    // Back along the lower border, which closes the shape.
    for (let x = n - 1; x >= 0; x--) {
      const bottom = y + height * (1 - below[x]!);
      pen.lineTo(at(x + 1), bottom);
      pen.lineTo(at(x), bottom);
    }
    pen.closePath();
    pen.fill();
    for (let x = 0; x < n; x++) below[x]! += shares[x * classes.length + c]!;
  }
}
