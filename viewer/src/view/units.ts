// Times as text.

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "us"],
  [1, "ns"],
];

/** Three significant digits with a unit: `1.23 ms`, `45 us`, `7 ns`. */
export function duration(ns: number): string {
  if (!Number.isFinite(ns)) return "?";
  const sign = ns < 0 ? "-" : "";
  const size = Math.abs(ns);
  if (size < 1) return "0 ns";
  const [scale, unit] = UNITS.find(([scale]) => size >= scale) ?? UNITS[3]!;
  const value = size / scale;
  const digits = scale === 1 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  const text = value.toFixed(digits);
  return `${sign}${digits > 0 ? text.replace(/\.?0+$/, "") : text} ${unit}`;
}

/** A point in time, to the nanosecond: `0.001 234 567 s`. */
export function instant(ns: number): string {
  const sign = ns < 0 ? "-" : "";
  const whole = Math.round(Math.abs(ns));
  const seconds = Math.floor(whole / 1e9);
  const rest = String(whole - seconds * 1e9).padStart(9, "0");
  return `${sign}${seconds}.${rest.slice(0, 3)} ${rest.slice(3, 6)} ${rest.slice(6)} s`;
}

/** `12.3 %`. What is more than nothing is never 0, and what is less than all never 100, as in the text of `kasuri stat`. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) return "-";
  const value = (100 * part) / whole;
  if (value > 0 && value < 0.05) return "<0.1 %";
  if (value >= 99.95 && value < 100) return ">99.9 %";
  return `${value >= 99.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** 1 234 567. */
export function count(n: number): string {
  return Math.round(n)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** Step between the ticks of an axis so that they are at least `ns` apart: 1, 2 or 5 times a power of ten. */
export function tickStep(ns: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(ns, 1)));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= ns) ?? 10 * power;
}

/** A tick's label: as many digits as `step` needs, all ticks in the unit that suits the whole axis's `span`. */
export function tickLabel(t: number, step: number, span: number): string {
  const largest = Math.max(Math.abs(t), span);
  const [scale, unit] = UNITS.find(([scale]) => largest >= scale) ?? UNITS[3]!;
  const digits = Math.max(0, Math.ceil(Math.log10(scale) - Math.log10(step)));
  return `${(t / scale).toFixed(digits)} ${unit}`;
}
