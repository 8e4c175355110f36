import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeUnit } from "../../src/data/columns";
import { Kind } from "../../src/data/index";
import { paintLine, type Style } from "../../src/draw/lines";
import { Inks } from "../../src/draw/palette";
import { bytes, recordingOf, sliceUnit, type Made } from "./made";

const none = (): undefined => undefined;
const rare = Uint8Array.from({ length: 16 }, (_, name) => (name === 9 || name === 10 ? 1 : 0));
const plain: Style = { inks: new Inks((value) => value >> 4, 256), matches: undefined, rare, notable: [], background: 0xffffff, text: 0x010203 };

function paint(items: Made[], t0: number, t1: number, width: number, style = plain) {
  const recording = recordingOf(["x"], [items], items.length);
  const unit = decodeUnit(Kind.Slice, bytes(sliceUnit(items)), 0);
  const target = { body: new Uint32Array(width), edge: new Uint32Array(width), mark: new Uint32Array(width), at: 0, labelWidth: 3, labels: [] as number[][], label: (x0: number, x1: number, value: number) => target.labels.push([x0, x1, value >> 4]) };
  const complete = paintLine(recording.lines[0]!, { t0, t1, width, length: t1 }, style, { want: () => unit, wantTile: none, peekTile: none, expectTile: none }, target);
  assert(complete);
  const alpha = [...target.body].map((pixel) => pixel >>> 24);
  const red = [...target.body].map((pixel) => (pixel >> 16) & 255);
  return { ...target, alpha, red };
}

void test("a wide item fills its pixels and has a label", () => {
  const { alpha, red, labels } = paint([{ start: 20, end: 70, name: 5, kind: 0 }], 0, 100, 10);
  assert.deepEqual(alpha.map((a) => a > 0), [false, false, true, true, true, true, true, false, false, false]);
  assert.equal(red[4], 5);
  assert.deepEqual(labels, [[2, 7, 5]]);
});

void test("items within a pixel: the longest colours it, paler the less is filled, never invisible", () => {
  const { alpha, red } = paint([{ start: 30, end: 31, name: 3, kind: 0 }, { start: 32, end: 36, name: 4, kind: 0 }, { start: 90, end: 90, name: 6, kind: 0 }], 0, 100, 10);
  assert.equal(red[3], 4);
  assert(alpha[3]! > 100 && alpha[3]! < 255);
  assert(alpha[9]! > 50, "an item of no length is drawn");
});

void test("a rare name keeps the edge of a pixel that another fills", () => {
  const { edge, red } = paint([{ start: 30, end: 38, name: 3, kind: 0 }, { start: 38, end: 39, name: 9, kind: 0 }], 0, 100, 10);
  assert.equal(red[3], 3);
  assert.equal((edge[3]! >> 16) & 255, 9);
  assert.equal(edge[4], 0);
});

void test("painting is the same wherever the view begins", () => {
  const items = Array.from({ length: 40 }, (_, i): Made => ({ start: 25 * i, end: 25 * i + 20, name: i % 3, kind: 0 }));
  const whole = paint(items, 0, 1000, 1000);
  const part = paint(items, 500, 600, 100);
  assert.deepEqual([...part.body].slice(2, 98), [...whole.body].slice(502, 598));
});

void test("a name's longest slice keeps the edge of a pixel that is full of others", () => {
  const items = Array.from({ length: 10 }, (_, i): Made => ({ start: 300 + i, end: 301 + i, name: i === 4 ? 7 : 3, kind: 0 }));
  const longest = { start: 304, end: 305, value: 7 << 4 };
  const { edge, red } = paint(items, 0, 1000, 100, { ...plain, notable: [longest] });
  assert.equal(red[30], 3);
  assert.equal((edge[30]! >> 16) & 255, 7);
  // The control: a wide one needs no mark.
  const wide = paint([{ start: 300, end: 400, name: 7, kind: 0 }], 0, 1000, 100, { ...plain, notable: [{ start: 300, end: 400, value: 7 << 4 }] });
  assert(wide.edge.every((pixel) => pixel === 0));
});

void test("two hidden rare names in one pixel leave a mark; one does not", () => {
  const crowd: Made[] = [{ start: 30, end: 36, name: 3, kind: 0 }, { start: 36, end: 37, name: 9, kind: 0 }];
  assert.equal(paint(crowd, 0, 100, 10).mark[3], 0);
  const two = paint([...crowd, { start: 37, end: 38, name: 10, kind: 0 }], 0, 100, 10);
  assert.notEqual(two.mark[3], 0);
  assert.equal(two.mark[4], 0);
});

void test("a pixel that holds a whole item beside another is shaded; a mere border between two is not", () => {
  const border = paint([{ start: 0, end: 35, name: 3, kind: 0 }, { start: 35, end: 100, name: 4, kind: 0 }], 0, 100, 10);
  assert(border.edge.every((pixel) => pixel === 0));
  const merged = paint([{ start: 0, end: 33, name: 3, kind: 0 }, { start: 33, end: 36, name: 5, kind: 0 }, { start: 36, end: 100, name: 4, kind: 0 }], 0, 100, 10);
  assert.notEqual(merged.edge[3], 0);
  assert.equal(merged.edge[2], 0);
});
