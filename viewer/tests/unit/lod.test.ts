import assert from "node:assert/strict";
import { test } from "node:test";
import { Kind, State } from "../../src/data/index";
import { halve, type Level, MERGED, bucketsFor, pyramid, storedLevels, stretchOf, TILE, type Tile, tilesOf, SEVERAL } from "../../src/data/lod";

function level(cells: [value: number, cover: number, flags?: number, note?: number][]): Level {
  return {
    n: cells.length,
    value: Uint32Array.from(cells, (cell) => cell[0]),
    cover: Uint8Array.from(cells, (cell) => cell[1]),
    flags: Uint8Array.from(cells, (cell) => cell[2] ?? 0),
    note: Uint32Array.from(cells, (cell) => cell[3] ?? 0),
  };
}

void test("of two buckets the fuller one is shown, and that there were two", () => {
  const half = halve(level([[16, 40], [32, 200]]), Kind.Slice);
  assert.deepEqual([half.value[0], half.cover[0], half.flags[0]], [32, 120, MERGED]);
});

void test("nothing beside nothing is nothing; something beside nothing stays visible", () => {
  const half = halve(level([[0, 0], [0, 0], [16, 1], [0, 0]]), Kind.Slice);
  assert.deepEqual([...half.cover], [0, 1]);
  assert.equal(half.value[1], 16);
});

void test("what must not be hidden survives every level", () => {
  const cells = Array.from({ length: 4096 }, (_, i): [number, number, number, number] => [16, 255, 0, i === 1234 ? 77 : 0]);
  for (const coarse of pyramid(level(cells), Kind.Slice, 2)) {
    assert(coarse.note.includes(77), `lost among ${coarse.n} buckets`);
  }
});

void test("a running thread is not hidden by a sleeping half", () => {
  const half = halve(level([[State.Sleeping, 255], [State.Running, 3]]), Kind.State);
  assert.deepEqual([half.value[0], half.cover[0]], [State.Running, 2]);
  // The control: names have no such order.
  assert.equal(halve(level([[State.Sleeping, 255], [State.Running, 3]]), Kind.Slice).value[0], State.Sleeping);
});

void test("the level picked has buckets no wider than a pixel, and as few as that allows", () => {
  const levels = pyramid(level(Array.from({ length: TILE }, () => [16, 255])), Kind.Slice);
  assert.deepEqual(levels.map((l) => l.n), [256, 512, 1024, 2048]);
  const line = { kind: Kind.Slice, levels, lod: [16384] };
  assert.deepEqual(storedLevels(16384), [2048, 4096, 16384]);
  const buckets = (pixels: number): number => bucketsFor(line, 1_000_000, 1_000_000 / pixels);
  assert.deepEqual([100, 1500, 2048, 2049, 5000, 16384, 1e6].map(buckets), [256, 2048, 2048, 4096, 8192, 16384, 16384]);
});

void test("a note that was shown is not lost when a coarser bucket shows something else", () => {
  // The first bucket shows value 76, which is noted; the second fills more with 16.
  const half = halve(level([[76, 40, 0, 77], [16, 255]]), Kind.Slice);
  assert.deepEqual([half.value[0], half.note[0]], [16, 77]);
});

void test("two different notes stay two: one is kept and the bucket says that there are several", () => {
  const half = halve(level([[16, 40, 0, 77], [16, 255, 0, 99]]), Kind.Slice);
  assert(half.note[0] === 77 || half.note[0] === 99);
  assert.equal(half.flags[0]! & SEVERAL, SEVERAL);
  assert.equal(halve(level([[16, 40, 0, 77], [16, 255, 0, 77]]), Kind.Slice).flags[0]! & SEVERAL, 0);
});

void test("levels between the stored ones are halves of tiles; one tile that is missing leaves the level out", () => {
  const length = 1_000_000;
  const cells = Array.from({ length: 16384 }, (_, i): [number, number] => [i, 255]);
  const finest = level(cells);
  const whole = pyramid(finest, Kind.Slice);
  const ofN = (n: number): Level => whole.find((level) => level.n === n)!;
  const slice = (from: Level, t: number): Level => ({ n: TILE, value: from.value.slice(t * TILE, (t + 1) * TILE), cover: from.cover.slice(t * TILE, (t + 1) * TILE), flags: from.flags.slice(t * TILE, (t + 1) * TILE), note: from.note.slice(t * TILE, (t + 1) * TILE) });
  const tiles = storedLevels(16384).flatMap((n) => Array.from({ length: n / TILE }, (_, t) => slice(ofN(n), t))).map((level): Tile => ({ level, half: halve(level, Kind.Slice) }));
  const line = { kind: Kind.Slice, levels: pyramid(tiles[0]!.level, Kind.Slice), lod: [16384] };
  for (const n of [256, 2048, 4096, 8192, 16384]) {
    for (const [t0, t1] of [[0, length], [length * 0.3, length * 0.62], [length - 1, length], [-length, 3 * length]] as [number, number][]) {
      const asked = new Set<number>();
      const stretch = stretchOf(line, n, length, t0, t1, (t) => (asked.add(t), tiles[t]))!;
      const seen = [Math.max(0, Math.floor((t0 / length) * n)), Math.min(n - 1, Math.floor((t1 / length) * n))] as const;
      for (let b = seen[0]; b <= seen[1]; b++) {
        const part = stretch.parts[Math.floor(b / stretch.per) - stretch.first]!;
        assert.equal(part.value[b % stretch.per], ofN(n).value[b], `bucket ${b} of ${n}`);
      }
      for (const lost of asked) assert.equal(stretchOf(line, n, length, t0, t1, (t) => (t === lost ? undefined : tiles[t])), undefined);
    }
  }
  // Of the finest level only what is in view: of eight tiles two.
  const { base, first, last, half } = tilesOf(line, 16384, length, length * 0.3, length * 0.4);
  assert.deepEqual({ base, first, last, half }, { base: 3, first: 2, last: 4, half: false });
});
