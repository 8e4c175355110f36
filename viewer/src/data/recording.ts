// One recording in a page: units and levels are decoded when first wanted, and forgotten when room is needed.
import type { Unit } from "./columns";
import { here, type Decoder } from "./decode";
import { FORMAT_VERSION, Kind, type Index, type LineRow, type UnitRow } from "./index";
import { groupBy } from "./group";
import type { Level } from "./lod";

/** Items kept decoded: at 20 bytes each, and the undeflated bytes behind them, about 150 MB. */
const KEEP_ITEMS = 4_000_000;
/** Blocks decoded at once: more only delays the first. */
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
export type TagText = (tag: number, from: number, length: number) => Promise<string>;

/** What is decoded is a cache of bounded size; everything can be asked for again. */
export class Recording {
  readonly lines: Line[];
  /** Called when something was decoded that had been wanted. */
  onload: () => void = () => undefined;
  private readonly units = new Map<number, Unit>();
  /** Blocks that are being decoded. */
  private readonly coming = new Map<number, Promise<Unit[]>>();
  private wanted = new Map<number, { line: Line; unit: number }>();
  private readonly failed = new Set<number>();
  private inFlight = 0;
  private kept = 0;
  /** What each block holds: lines and their units, in the order of the block. */
  private readonly inBlock = new Map<number, { line: Line; unit: number }[]>();

  constructor(
    readonly index: Index,
    private readonly tag: TagText,
    private readonly decoder: Decoder = here,
  ) {
    if (index.version !== FORMAT_VERSION) {
      throw new Error(`this file holds data of version ${index.version}, its viewer reads version ${FORMAT_VERSION}`);
    }
    this.lines = index.lines.map(lineOf);
    for (const line of this.lines) {
      for (let unit = 0; unit < line.nUnits; unit++) {
        const block = line.block[unit]!;
        const held = this.inBlock.get(block);
        if (held) held.push({ line, unit });
        else this.inBlock.set(block, [{ line, unit }]);
      }
    }
  }

  get length(): number {
    return this.index.length;
  }

  /** String `ix` of the index; "" for -1 and anything else that is not in it. */
  text(ix: number): string {
    return this.index.strings[ix] ?? "";
  }

  /** Unit `u` of `line` when it is decoded. */
  peek(line: Line, u: number): Unit | undefined {
    // A Map lists keys as they were added: taking a unit out and putting it back makes it the most recently used.
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
      // Wishes are collected while a frame is drawn, and decoded between frames.
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
    const b = line.block[u]!;
    const held = this.inBlock.get(b)!;
    const decoded = await this.decodeBlock(b, held);
    // Short lines share blocks: whoever reads one will soon read the others.
    if (keep || held.length > 1) held.forEach((at, i) => this.keep(keyOf(at.line, at.unit), decoded[i]!));
    return decoded[held.findIndex((at) => at.line === line && at.unit === u)]!;
  }

  /** Decodes a block once, however many ask for it at the same time. */
  private decodeBlock(b: number, held: { line: Line; unit: number }[]): Promise<Unit[]> {
    let coming = this.coming.get(b);
    if (!coming) {
      const parts = held.map(({ line, unit }) => ({ kind: line.kind, offset: line.offset[unit]! }));
      coming = this.blockText(b).then(({ text, raw }) => this.decoder.units(text, raw, parts));
      this.coming.set(b, coming);
      const done = (): void => void this.coming.delete(b);
      coming.then(done, done);
    }
    return coming;
  }

  /** Inflated block `b`. */
  async block(b: number): Promise<Uint8Array> {
    const { text, raw } = await this.blockText(b);
    return this.decoder.bytes(text, raw);
  }

  private async blockText(b: number): Promise<{ text: string; raw: number }> {
    const [tag, offset, length, raw] = this.index.blocks.slice(4 * b, 4 * b + 4) as [number, number, number, number];
    return { text: await this.tag(tag, offset, length), raw };
  }

  /** Decodes the overview of every line that has one; in the page, which has nothing to draw before. */
  async loadOverview(): Promise<void> {
    await this.loadLevels((line) => [line.lod![1], line.lod![2], Math.min(2048, line.lod![0])], here);
  }

  /** Decodes the finest level of every line that has one. */
  async loadFinest(): Promise<void> {
    await this.loadLevels((line) => [line.lod![3], line.lod![4], line.lod![0]], this.decoder);
  }

  /** Lines of one block are decoded together: inflating is most of the work. */
  private async loadLevels(where: (line: Line) => [number, number, number], decoder: Decoder): Promise<void> {
    const missing = this.lines.filter((line) => line.lod && (line.levels.at(-1)?.n ?? 0) < where(line)[2]);
    await Promise.all(
      [...groupBy(missing, (line) => where(line)[0])].map(async ([b, lines]) => {
        const { text, raw } = await this.blockText(b);
        const parts = lines.map((line) => ({ kind: line.kind, offset: where(line)[1], n: where(line)[2] }));
        const decoded = await decoder.levels(text, raw, parts);
        lines.forEach((line, i) => (line.levels = decoded[i]!));
      }),
    );
    this.onload();
  }

  /** Decodes what is wanted, a few blocks at a time, until nothing is wanted any more. */
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

  /** Keeps a unit and forgets the least recently used ones beyond the limit. */
  private keep(key: number, unit: Unit): void {
    if (this.units.has(key)) return;
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

/** The index's rows as typed arrays: searching millions of units must not chase objects. */
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
