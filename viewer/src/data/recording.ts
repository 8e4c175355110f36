// One recording in a page: units and levels are inflated when first wanted, and forgotten when room is needed.
import { decodeUnit, type Unit } from "./columns";
import { FORMAT_VERSION, Kind, type Index, type LineRow, type UnitRow } from "./index";
import { groupBy } from "./group";
import { fromBase64, inflate } from "./inflate";
import { decodeLevel, type Level, pyramid } from "./lod";

/** Items kept decoded: at 20 bytes each, and the undeflated bytes behind them, about 150 MB. */
const KEEP_ITEMS = 4_000_000;
const KEEP_BLOCKS = 48;
/** Units decoded at once: more only delays the first. */
const IN_FLIGHT = 6;

/** A line and what is known of it so far. */
export interface Line extends LineRow {
  ix: number;
  /** Number of units; unit `u` has items `[base[u], base[u + 1])` and lies between `from[u]` and `to[u]`. */
  nUnits: number;
  from: Float64Array;
  to: Float64Array;
  base: Float64Array;
  block: Uint32Array;
  offset: Uint32Array;
  /** Coarse to fine; empty when the line has none or they are not inflated yet. */
  levels: Level[];
}

/** Where the text of the data comes from: the page's script tags, or a test. */
export type TagText = (tag: number) => Promise<string>;

export class Recording {
  readonly lines: Line[];
  /** Called when something was decoded that had been wanted. */
  onload: () => void = () => undefined;
  private readonly units = new Map<number, Unit>();
  private readonly blocks = new Map<number, Promise<Uint8Array>>();
  private wanted = new Map<number, { line: Line; unit: number }>();
  private readonly failed = new Set<number>();
  private inFlight = 0;
  private kept = 0;

  constructor(
    readonly index: Index,
    private readonly tag: TagText,
  ) {
    if (index.version !== FORMAT_VERSION) {
      throw new Error(`this file holds data of version ${index.version}, its viewer reads version ${FORMAT_VERSION}`);
    }
    this.lines = index.lines.map(lineOf);
  }

  get length(): number {
    return this.index.length;
  }

  text(ix: number): string {
    return this.index.strings[ix] ?? "";
  }

  /** Unit `u` of `line` when it is decoded. */
  peek(line: Line, u: number): Unit | undefined {
    const key = keyOf(line, u);
    const unit = this.units.get(key);
    if (unit) {
      this.units.delete(key);
      this.units.set(key, unit);
    }
    return unit;
  }

  /** Like {@link peek}, and asks for it when it is not there: `onload` will be called. */
  want(line: Line, u: number): Unit | undefined {
    const unit = this.peek(line, u);
    if (!unit) {
      const key = keyOf(line, u);
      if (!this.failed.has(key)) this.wanted.set(key, { line, unit: u });
      void this.pump();
    }
    return unit;
  }

  /** Forgets what was wanted but is not being decoded yet: a new frame says anew what it wants. */
  forgetWants(): void {
    this.wanted.clear();
  }

  get busy(): boolean {
    return this.wanted.size > 0 || this.inFlight > 0;
  }

  /** Unit `u` of `line`; `keep` false leaves the cache as it is, for passes over everything. */
  async unit(line: Line, u: number, keep = true): Promise<Unit> {
    const cached = this.peek(line, u);
    if (cached) return cached;
    const block = await this.block(line.block[u]!, keep || line.nUnits === 1);
    const unit = decodeUnit(line.kind, block, line.offset[u]!);
    if (keep) this.keep(keyOf(line, u), unit);
    return unit;
  }

  /** Inflated block `b`. */
  block(b: number, keep = true): Promise<Uint8Array> {
    const cached = this.blocks.get(b);
    if (cached) return cached;
    const inflated = this.inflateBlock(b);
    if (keep) {
      this.blocks.set(b, inflated);
      if (this.blocks.size > KEEP_BLOCKS) this.blocks.delete(this.blocks.keys().next().value!);
    }
    return inflated;
  }

  private async inflateBlock(b: number): Promise<Uint8Array> {
    const [tag, offset, length, raw] = this.index.blocks.slice(4 * b, 4 * b + 4) as [number, number, number, number];
    const text = await this.tag(tag);
    return inflate(fromBase64(text.slice(offset, offset + length)), raw);
  }

  /** Inflates the overview of every line that has one. */
  async loadOverview(): Promise<void> {
    await this.loadLevels((line) => [line.lod![1], line.lod![2], Math.min(2048, line.lod![0])]);
  }

  /** Inflates the finest level of every line that has one. */
  async loadFinest(): Promise<void> {
    await this.loadLevels((line) => [line.lod![3], line.lod![4], line.lod![0]]);
  }

  private async loadLevels(where: (line: Line) => [number, number, number]): Promise<void> {
    const byBlock = groupBy(
      this.lines.filter((line) => line.lod),
      (line) => where(line)[0],
    );
    await Promise.all(
      [...byBlock].map(async ([b, lines]) => {
        const block = await this.block(b, false);
        for (const line of lines) {
          const [, offset, n] = where(line);
          if ((line.levels.at(-1)?.n ?? 0) < n) line.levels = pyramid(decodeLevel(block, offset, n), line.kind);
        }
      }),
    );
    this.onload();
  }

  private async pump(): Promise<void> {
    while (this.inFlight < IN_FLIGHT) {
      const next = this.wanted.entries().next();
      if (next.done) return;
      const [key, { line, unit }] = next.value;
      this.wanted.delete(key);
      if (this.units.has(key)) continue;
      this.inFlight++;
      try {
        await this.unit(line, unit);
      } catch (error) {
        // Asking again would fail again; the row stays on its coarser picture.
        this.failed.add(key);
        console.error(`kasuri: cannot read a part of the recording: ${String(error)}`);
      } finally {
        this.inFlight--;
      }
      this.onload();
    }
  }

  private keep(key: number, unit: Unit): void {
    this.units.set(key, unit);
    this.kept += unit.n;
    for (const [old, { n }] of this.units) {
      if (this.kept <= KEEP_ITEMS || old === key) return;
      this.units.delete(old);
      this.kept -= n;
    }
  }
}

function keyOf(line: Line, u: number): number {
  return line.ix * 1_048_576 + u;
}

function lineOf(row: LineRow, ix: number): Line {
  const nUnits = row.units.length / 5;
  const line: Line = {
    ...row,
    ix,
    nUnits,
    from: new Float64Array(nUnits),
    to: new Float64Array(nUnits),
    base: new Float64Array(nUnits + 1),
    block: new Uint32Array(nUnits),
    offset: new Uint32Array(nUnits),
    levels: [],
  };
  for (let u = 0; u < nUnits; u++) {
    const [block, offset, items, from, to] = row.units.slice(5 * u, 5 * u + 5) as UnitRow;
    line.block[u] = block;
    line.offset[u] = offset;
    line.base[u + 1] = line.base[u]! + items;
    line.from[u] = from;
    line.to[u] = to;
  }
  return line;
}

/** Whether a line's items have a length to be looked for at an instant. */
export function isSpan(line: Line): boolean {
  return line.kind !== Kind.Instant && line.kind !== Kind.Counter;
}
