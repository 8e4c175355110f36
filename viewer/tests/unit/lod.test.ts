import assert from "node:assert/strict";
import { test } from "node:test";
import { Kind, State } from "../../src/data/index";
import { halve, type Level, MERGED, pick, pyramid, SEVERAL } from "../../src/data/lod";

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
  const levels = pyramid(level(Array.from({ length: 4096 }, () => [16, 255])), Kind.Slice, 256);
  assert.deepEqual(levels.map((l) => l.n), [256, 512, 1024, 2048, 4096]);
  assert.equal(pick(levels, 1_000_000, 1_000_000 / 1500)?.n, 2048);
  assert.equal(pick(levels, 1_000_000, 1)?.n, 4096);
  assert.equal(pick([], 1_000_000, 1), undefined);
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
