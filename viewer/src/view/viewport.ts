// The part of the recording that is on the screen. Everything drawn is a function of this and the data.

/** Times in ns on the file's axis, lengths in CSS pixels. */
export interface Viewport {
  t0: number;
  t1: number;
  width: number;
  height: number;
  /** How far the rows are scrolled. */
  scroll: number;
}

/** No view is narrower: below this, pixels are thinner than the clock's resolution. */
export const MIN_NS = 20;

export function nsPerPixel(view: Viewport): number {
  return (view.t1 - view.t0) / Math.max(1, view.width);
}

export function xOf(view: Viewport, t: number): number {
  return ((t - view.t0) / (view.t1 - view.t0)) * view.width;
}

export function timeAt(view: Viewport, x: number): number {
  return view.t0 + (x / Math.max(1, view.width)) * (view.t1 - view.t0);
}

/** Part of the view that may lie beyond an end of the axis. */
const MARGIN = 0.1;

/**
 * `[t0, t1]`, moved and cut so that it makes sense on an axis of `length`: a view wider than the axis holds all of it,
 * a narrower one lies on it but for a margin.
 */
export function clampRange(t0: number, t1: number, length: number): [number, number] {
  if (!Number.isFinite(t1 - t0) || t1 <= t0) return [0, length];
  const width = Math.min(Math.max(t1 - t0, MIN_NS), length * (1 + 2 * MARGIN));
  const slack = width > length ? 0 : width * MARGIN;
  const ends = [-slack, length + slack - width];
  const from = Math.min(Math.max((t0 + t1 - width) / 2, Math.min(...ends)), Math.max(...ends));
  return [from, from + width];
}

/** The view zoomed by `factor` (< 1: closer) about the time at `x`. */
export function zoomed(view: Viewport, factor: number, x: number, length: number): [number, number] {
  const width = view.t1 - view.t0;
  const wanted = Math.max(MIN_NS, width * factor);
  const at = timeAt(view, x);
  const t0 = at - (x / Math.max(1, view.width)) * wanted;
  return clampRange(t0, t0 + wanted, length);
}

/** The view moved by `pixels` to the right. */
export function panned(view: Viewport, pixels: number, length: number): [number, number] {
  const by = pixels * nsPerPixel(view);
  return clampRange(view.t0 + by, view.t1 + by, length);
}

/** `[start, end]` in the middle of the view with `share` of the width. */
export function fitted(start: number, end: number, length: number, share = 0.6): [number, number] {
  const width = Math.max(end - start, MIN_NS) / share;
  const middle = (start + end) / 2;
  return clampRange(middle - width / 2, middle + width / 2, length);
}
