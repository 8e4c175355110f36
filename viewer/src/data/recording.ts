// One recording in a page: units and tiles are decoded when first wanted, and forgotten when room is needed.
import { partAt, type Unit } from "./columns";
import { here, type Decoder } from "./decode";
import { FORMAT_VERSION, Kind, type Index, type LineRow, type UnitRow } from "./index";
import { groupBy } from "./group";
import { pyramid, type Level, type Tile } from "./lod";
import { Lru } from "./lru";
import type { Packed } from "./source";

/** Items kept decoded: at 20 bytes each, and the undeflated bytes behind them, about 150 MB. */
const KEEP_ITEMS = 4_000_000;
/** Tiles kept: at 31 kB each, 127 MB. A screen of 360 rows takes 1800. */
const KEEP_TILES = 4096;
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
  part: Uint32Array;
  /** The overview and its halves, coarse to fine; empty when the line has none or it is not decoded yet. */
  levels: Level[];
}

/** A unit of a line, or a tile of it: its number in the line. */
interface Held {
  line: Line;
  at: number;
  part: number;
}

/** What a block holds, in its order. */
interface Content {
  tiles: boolean;
  held: Held[];
}

/** What is decoded is a cache of bounded size; everything can be asked for again. */
export class Recording {
  readonly lines: Line[];
  /** Called when something was decoded that had been wanted. */
  onload: () => void = () => undefined;
  private readonly units = new Lru<Unit>(KEEP_ITEMS, (unit) => unit.n);
  private readonly tiles = new Lru<Tile>(KEEP_TILES, () => 1);
  /** Blocks that are being decoded. */
  private readonly coming = new Map<number, Promise<(Unit | Tile)[]>>();
  /** Blocks that a frame lacked, and those that the next frames may. */
  private readonly wanted = new Set<number>();
  private readonly expected = new Set<number>();
  private readonly failed = new Set<number>();
  private inFlight = 0;
  private readonly inBlock = new Map<number, Content>();

  constructor(
    readonly index: Index,
    private readonly source: (b: number) => Promise<Packed>,
    private readonly decoder: Decoder = here,
  ) {
    if (index.version !== FORMAT_VERSION) {
      throw new Error(`this file holds data of version ${index.version}, its viewer reads version ${FORMAT_VERSION}`);
    }
    this.lines = index.lines.map(lineOf);
    for (const line of this.lines) {
      for (let at = 0; at < line.nUnits; at++) this.hold(line.block[at]!, false, { line, at, part: line.part[at]! });
      for (let at = 0; at < nTiles(line); at++) this.hold(line.lod![1 + 2 * at]!, true, { line, at, part: line.lod![2 + 2 * at]! });
    }
  }

  private hold(block: number, tiles: boolean, held: Held): void {
    const content = this.inBlock.get(block);
    if (content) content.held.push(held);
    else this.inBlock.set(block, { tiles, held: [held] });
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
    return this.units.get(keyOf(line, u));
  }

  /** Like {@link peek}, and asks for it when it is not there: `onload` will be called. */
  want(line: Line, u: number): Unit | undefined {
    return this.peek(line, u) ?? this.ask(line.block[u]!, this.wanted);
  }

  /** Tile `t` of `line` when it is decoded. */
  peekTile(line: Line, t: number): Tile | undefined {
    return this.tiles.get(keyOf(line, t));
  }

  /** Like {@link peekTile}, and asks for it. */
  wantTile(line: Line, t: number): Tile | undefined {
    return this.peekTile(line, t) ?? this.ask(line.lod![1 + 2 * t]!, this.wanted);
  }

  /** Asks for a tile that will soon be wanted; what is wanted now comes first. */
  expectTile(line: Line, t: number): void {
    if (!this.tiles.has(keyOf(line, t))) this.ask(line.lod![1 + 2 * t]!, this.expected);
  }

  /** Wishes are collected while a frame is drawn, and decoded between frames. */
  private ask(block: number, wishes: Set<number>): undefined {
    if (!this.failed.has(block)) wishes.add(block);
    void this.pump();
    return undefined;
  }

  /** Forgets what was wanted but is not being decoded yet: a new frame says anew what it wants. */
  forgetWants(): void {
    this.wanted.clear();
    this.expected.clear();
  }

  get busy(): boolean {
    return this.wanted.size + this.expected.size > 0 || this.inFlight > 0;
  }

  /** Unit `u` of `line`; `keep` false leaves the cache as it is, for passes over everything. */
  async unit(line: Line, u: number, keep = true): Promise<Unit> {
    const cached = this.peek(line, u);
    if (cached) return cached;
    const b = line.block[u]!;
    const { held } = this.inBlock.get(b)!;
    const decoded = (await this.decodeBlock(b)) as Unit[];
    // Short lines share blocks: whoever reads one will soon read the others.
    if (keep || held.length > 1) this.keep(b, decoded);
    return decoded[held.findIndex((one) => one.line === line && one.at === u)]!;
  }

  /** Decodes a block of units or tiles once, however many ask for it at the same time. */
  private decodeBlock(b: number): Promise<(Unit | Tile)[]> {
    let coming = this.coming.get(b);
    if (!coming) {
      const { tiles, held } = this.inBlock.get(b)!;
      const parts = held.map(({ line, part }) => ({ kind: line.kind, part }));
      coming = this.source(b).then((packed): Promise<(Unit | Tile)[]> => (tiles ? this.decoder.tiles(packed, parts) : this.decoder.units(packed, parts)));
      this.coming.set(b, coming);
      const done = (): void => void this.coming.delete(b);
      coming.then(done, done);
    }
    return coming;
  }

  /** Block `b` of a table, and where part `part` of it begins. */
  async part(b: number, part: number): Promise<{ bytes: Uint8Array; offset: number }> {
    const bytes = await this.decoder.bytes(await this.source(b));
    return { bytes, offset: partAt(bytes, part) };
  }

  /** Decodes the overview of every line that has one; in the page, which has nothing to draw before. */
  async loadOverview(): Promise<void> {
    const lines = this.lines.filter((line) => nTiles(line) > 0);
    await Promise.all(
      [...groupBy(lines, (line) => line.lod![1]!)].map(async ([b, lines]) => {
        const parts = lines.map((line) => ({ kind: line.kind, part: line.lod![2]! }));
        const tiles = await here.tiles(await this.source(b), parts);
        lines.forEach((line, i) => (line.levels = pyramid(tiles[i]!.level, line.kind)));
      }),
    );
  }

  /** Decodes what is wanted, a few blocks at a time, until nothing is wanted any more. */
  private async pump(): Promise<void> {
    while (this.inFlight < IN_FLIGHT) {
      const [wishes, b] = this.wanted.size > 0 ? [this.wanted, first(this.wanted)] : [this.expected, first(this.expected)];
      if (b === undefined) return;
      wishes.delete(b);
      if (this.coming.has(b)) continue;
      this.inFlight++;
      try {
        this.keep(b, await this.decodeBlock(b));
      } catch (error) {
        // Asking again would fail again; the row stays on its coarser picture.
        this.failed.add(b);
        console.error(`kasuri: cannot read a part of the recording: ${String(error)}`);
      } finally {
        this.inFlight--;
      }
      this.onload();
    }
  }

  private keep(b: number, decoded: (Unit | Tile)[]): void {
    const { tiles, held } = this.inBlock.get(b)!;
    const into = (tiles ? this.tiles : this.units) as Lru<Unit | Tile>;
    held.forEach(({ line, at }, i) => into.add(keyOf(line, at), decoded[i]!));
  }
}

function first<T>(set: Set<T>): T | undefined {
  return set.values().next().value;
}

function keyOf(line: Line, u: number): number {
  return line.ix * 1_048_576 + u;
}

/** Tiles of all levels of a line. */
function nTiles(line: LineRow): number {
  return line.lod ? (line.lod.length - 1) / 2 : 0;
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
    part: new Uint32Array(nUnits),
    levels: [],
  };
  for (let u = 0; u < nUnits; u++) {
    const [block, part, items, from, to] = row.units.slice(5 * u, 5 * u + 5) as UnitRow;
    line.block[u] = block;
    line.part[u] = part;
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
