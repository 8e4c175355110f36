// Where every CPU-second went: sums of what the writer charged each instant of each CPU to.
import { cell, columnBytes, words } from "./columns";
import { Kind } from "./index";
import { itemsBetween, overlap, Patience, scan, unitsBetween } from "./query";
import type { Line, Recording } from "./recording";

/** Items drawn one by one; with more in view, the mix is as good. */
const MAX_ITEMS = 30_000;

export interface Sums {
  /** Wall time times CPUs: the classes add up to this. */
  capacity: number;
  cpus: number;
  classes: Float64Array;
  /** ns of each row of the index's causes; `classes` above has ns of each class. */
  causes: Float64Array;
}

export class Account {
  /** A line for each CPU. */
  readonly lines: Line[];
  /** Keys of the classes, by number: the file's own list. */
  readonly classes: string[];
  /** Bytes of shares by line, class and bucket. */
  private mixes: Uint8Array[][] = [];

  constructor(private readonly recording: Recording) {
    this.lines = recording.lines.filter((line) => line.kind === Kind.Account);
    this.classes = recording.index.account?.classes.map(([key]) => key) ?? [];
  }

  get buckets(): number {
    return this.recording.index.account?.buckets ?? 0;
  }

  /** Reads the mix of each CPU. */
  async load(): Promise<void> {
    const { index } = this.recording;
    if (!index.account) return;
    const { buckets, mixes } = index.account;
    this.mixes = await Promise.all(
      mixes.map(async ([block, part]) => {
        const { bytes, offset } = await this.recording.part(block, part);
        // One byte for each bucket: the class's share of the bucket, 255 is all of it.
        let at = offset;
        return this.classes.map(() => {
          const column = Uint8Array.from(words(bytes, at, buckets));
          at += columnBytes(bytes, at, buckets);
          return column;
        });
      }),
    );
  }

  /** Lines of the CPUs that are asked for. */
  private chosen(cpus: Set<number> | undefined): number[] {
    return this.lines.flatMap((line, l) => (cpus === undefined || cpus.has(line.owner) ? [l] : []));
  }

  /**
   * Shares of each class in each of `width` pixels between `t0` and `t1`, of the capacity of `cpus` (all): row-major
   * [width][class]. From the segments themselves where few are in view, else from the mix. `complete` false: more was asked for.
   */
  shares(t0: number, t1: number, width: number, cpus: Set<number> | undefined): { shares: Float32Array; complete: boolean } {
    const shares = new Float32Array(width * this.classes.length);
    const chosen = this.chosen(cpus);
    let complete = true;
    for (const l of chosen) {
      // Each CPU adds its part, weighed so that the shares of one pixel add up to 1 over all chosen CPUs.
      if (!this.fromItems(shares, this.lines[l]!, t0, t1, width, 1 / chosen.length, (known) => (complete &&= known))) this.fromMix(shares, l, t0, t1, width, 1 / chosen.length);
    }
    return { shares, complete };
  }

  /** Adds the shares of one line from its segments; false where there are too many or they are not there yet. */
  private fromItems(shares: Float32Array, line: Line, t0: number, t1: number, width: number, weight: number, report: (known: boolean) => void): boolean {
    const { recording } = this;
    const nClasses = this.classes.length;
    const nsPerPixel = (t1 - t0) / width;
    // A pixel wider than a bucket needs no items.
    if (this.mixes.length > 0 && nsPerPixel > recording.length / this.buckets) return false;
    const [first, last] = unitsBetween(line, t0, t1);
    const units = [];
    let n = 0;
    for (let u = first; u < last; u++) {
      const unit = recording.want(line, u);
      if (!unit) {
        report(false);
        return false;
      }
      const [i0, i1] = itemsBetween(unit, t0, t1);
      n += i1 - i0;
      units.push({ unit, i0, i1 });
    }
    if (n > MAX_ITEMS) return false;
    for (const { unit, i0, i1 } of units) {
      for (let i = i0; i < i1; i++) {
        // An item is spread over the pixels it covers; its ends fill a part of a pixel.
        const x0 = Math.max(0, (unit.start[i]! - t0) / nsPerPixel);
        const x1 = Math.min(width, (unit.end[i]! - t0) / nsPerPixel);
        const value = unit.value[i]!;
        // A class that the file does not list would be counted in the next pixel.
        if (value >= nClasses) continue;
        for (let p = Math.floor(x0); p < x1; p++) shares[p * nClasses + value]! += (Math.min(x1, p + 1) - Math.max(x0, p)) * weight;
      }
    }
    return true;
  }

  /** Adds the shares of one line from its mix: coarser, and there from the start. */
  private fromMix(shares: Float32Array, l: number, t0: number, t1: number, width: number, weight: number): void {
    const mix = this.mixes[l];
    if (!mix) return;
    const n = this.buckets;
    const nClasses = this.classes.length;
    // Bucket (with a fraction) at the left end, and buckets per pixel.
    const first = (t0 * n) / this.recording.length;
    const perPixel = ((t1 - t0) * n) / this.recording.length / width;
    for (let p = 0; p < width; p++) {
      const x = first + p * perPixel;
      const b0 = Math.floor(x);
      const b1 = Math.max(b0 + 1, Math.floor(x + perPixel));
      if (b0 < 0 || b0 >= n) continue;
      const each = weight / 255 / (b1 - b0);
      for (let c = 0; c < nClasses; c++) {
        const column = mix[c]!;
        let sum = 0;
        for (let b = b0; b < b1 && b < n; b++) sum += column[b]!;
        if (sum > 0) shares[p * nClasses + c]! += sum * each;
      }
    }
  }

  /** The exact account between `t0` and `t1`; undefined when cancelled. */
  async sums(t0: number, t1: number, cpus: Set<number> | undefined, cancelled: () => boolean): Promise<Sums | undefined> {
    const account = this.recording.index.account;
    if (!account) return undefined;
    const chosen = this.chosen(cpus).map((l) => this.lines[l]!);
    const sums: Sums = { capacity: 0, cpus: chosen.length, classes: new Float64Array(this.classes.length), causes: new Float64Array(account.causes.length) };
    const patience = new Patience(cancelled);
    for (const line of chosen) {
      const go = await scan(this.recording, line, t0, t1, (unit, i0, i1) => {
        for (let i = i0; i < i1; i++) {
          const ns = overlap(unit.start[i]!, unit.end[i]!, t0, t1);
          if (ns === 0 || unit.value[i]! >= sums.classes.length) continue;
          sums.classes[unit.value[i]!]! += ns;
          sums.causes[cell(unit, 1, i)]! += ns;
          sums.capacity += ns;
        }
      }, patience);
      if (!go) return undefined;
    }
    return sums;
  }
}
