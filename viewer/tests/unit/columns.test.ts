import assert from "node:assert/strict";
import { test } from "node:test";
import { argumentsOf, cell, cellBits, decodeUnit, float, numbers, SliceColumn, words } from "../../src/data/columns";
import { Kind } from "../../src/data/index";
import { bytes, column, type Made, sliceUnit, u32, u64 } from "./made";

void test("a column of any width comes back", () => {
  const values = [0, 1, 255, 256, 65_535, 2 ** 32, 2 ** 53 - 1];
  assert.deepEqual([...numbers(bytes(column(values)), 0, values.length)], values);
  assert.deepEqual([...words(bytes(column([7, 7, 7])), 0, 3)], [7, 7, 7]);
  assert.deepEqual([...words(bytes(column([1, 2 ** 31, 5])), 0, 3)], [1, 2 ** 31, 5]);
});

void test("64 bits are exact", () => {
  const planes = [8, ...Array.from({ length: 8 }, (_, plane) => [0xff, plane]).flat()];
  assert.equal(cellBits(bytes(planes), 0, 2, 0), 2n ** 64n - 1n);
  assert.equal(cellBits(bytes(planes), 0, 2, 1), 0x0706050403020100n);
});

void test("a unit of slices comes back, at an offset", () => {
  const made: Made[] = [
    { start: 5_000_000_000, end: 5_000_000_100, name: 3, kind: 1 },
    { start: 5_000_000_100, end: 5_000_000_100, name: 4, kind: 0 },
    { start: 65_000_000_000, end: 65_000_000_007, name: 3, kind: 6, open: 2 },
  ];
  const block = bytes([9, 9, 9, ...sliceUnit(made)]);
  const unit = decodeUnit(Kind.Slice, block, 3);
  assert.deepEqual([...unit.start], made.map((m) => m.start));
  assert.deepEqual([...unit.end], made.map((m) => m.end));
  assert.deepEqual([...unit.value], [(3 << 4) | 1, 4 << 4, (3 << 4) | 6]);
  assert.equal(cell(unit, SliceColumn.KindOpen, 2) >> 4, 2);
  assert.deepEqual(argumentsOf(unit, 0), []);
});

void test("arguments belong to their slice", () => {
  const head = sliceUnit([0, 1, 2].map((i) => ({ start: i * 10, end: i * 10 + 5, name: i, kind: 0 }))).slice(0, -4);
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, 1.5);
  const half = Number(bits.getBigUint64(0) >> 32n);
  const columns = [column([1, 1, 2]), column([10, 11, 12]), column([1, 3, 1]), column([99, 4, half])];
  const unit = decodeUnit(Kind.Slice, bytes([...head, ...u32(3), ...columns.flat()]), 0);
  assert.deepEqual(argumentsOf(unit, 1), [{ name: 10, value: 99n }, { name: 11, value: { text: 4 } }]);
  assert.equal(argumentsOf(unit, 2).length, 1);
  assert.equal(argumentsOf(unit, 0).length, 0);
});

void test("a counter's values are floating-point numbers", () => {
  const view = new DataView(new ArrayBuffer(16));
  [-2.5, 1e300].forEach((value, i) => view.setFloat64(8 * i, value));
  const plane = (p: number) => [view.getUint8(7 - p), view.getUint8(15 - p)];
  const planes = Array.from({ length: 8 }, (_, p) => plane(p)).flat();
  const unit = decodeUnit(Kind.Counter, bytes([...u32(2), ...u64(10), ...column([0, 20]), ...column([0, 0]), 8, ...planes]), 0);
  assert.deepEqual([float(unit, 0, 0), float(unit, 0, 1)], [-2.5, 1e300]);
  assert.deepEqual([...unit.start], [10, 30]);
});

void test("a unit that is cut short is an error, not a picture", () => {
  const whole = sliceUnit([1, 2, 3].map((i) => ({ start: i * 10, end: i * 10 + i, name: i, kind: 0 })));
  assert.throws(() => decodeUnit(Kind.Slice, bytes(whole.slice(0, 40)), 0), /ends at byte/);
});
