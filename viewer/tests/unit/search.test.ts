import assert from "node:assert/strict";
import { test } from "node:test";
import { next, parseQuery, search, wantedBy } from "../../src/data/search";
import { areaTotals, occurrence } from "../../src/data/details";
import { itemAt, itemNumber, longestBetween } from "../../src/data/query";
import { recordingOf, type Made } from "./made";

const NAMES = ["spmv", "Assemble", "dot", "spmv transposed"];
/** Three threads; slice `i` of thread `t` begins at 100 i + 10 t and lasts 5, the 7th of thread 1 lasts 60. */
const LINES: Made[][] = [0, 1, 2].map((t) =>
  Array.from({ length: 11 }, (_, i) => ({ start: 100 * i + 10 * t, end: 100 * i + 10 * t + (t === 1 && i === 7 ? 60 : 5), name: (i + t) % 4, kind: 0 })),
);
const recording = recordingOf(NAMES, LINES);

function found(text: string) {
  const query = parseQuery(text);
  assert(query);
  return search(recording.index, query);
}

void test("text is found anywhere, whatever its case; a regular expression between slashes", () => {
  assert.deepEqual([...found("SPMV").matches], [1, 0, 0, 1]);
  assert.deepEqual([...found("/^spmv$/").matches], [1, 0, 0, 0]);
  assert.deepEqual([...found("/assemble/i").matches], [0, 1, 0, 0]);
  assert.equal(parseQuery("   "), undefined);
  assert.match(parseQuery("/(/")?.error ?? "", /group/i);
});

void test("the count is that of the slices", () => {
  const expected = LINES.flat().filter((item) => item.name === 0 || item.name === 3).length;
  assert.equal(found("spmv").slices, expected);
  assert.equal(found("spmv").names, 2);
});

void test("stepping visits every match of all threads once, in time order, both ways", async () => {
  const wanted = LINES.flat().filter((item) => item.name === 2).map((item) => item.start).sort((a, b) => a - b);
  const forward: number[] = [];
  let at = { start: -1, line: -1 };
  for (let item = await next(recording, wantedBy(found("dot")), at, 1); item; item = await next(recording, wantedBy(found("dot")), at, 1)) {
    forward.push(item.start);
    at = { start: item.start, line: item.line.ix };
  }
  assert.deepEqual(forward, wanted);
  const back: number[] = [];
  at = { start: Infinity, line: Infinity };
  for (let item = await next(recording, wantedBy(found("dot")), at, -1); item; item = await next(recording, wantedBy(found("dot")), at, -1)) {
    back.push(item.start);
    at = { start: item.start, line: item.line.ix };
  }
  assert.deepEqual(back, [...wanted].reverse());
});

void test("an item is found by time and by number, across units", async () => {
  const line = recording.lines[1]!;
  assert.equal((await itemAt(recording, line, 412))?.item, 4);
  assert.equal(await itemAt(recording, line, 450), undefined);
  assert.equal((await itemNumber(recording, line, 10))?.start, 1010);
  assert.equal(await itemNumber(recording, line, 11), undefined);
  assert.equal((await longestBetween(recording, line, 600, 830))?.item.item, 7);
});

void test("the next of a name is in the same row", async () => {
  const first = await itemNumber(recording, recording.lines[0]!, 1);
  assert(first);
  const second = await occurrence(recording, first, 1, () => false);
  assert.equal(second?.item, 5);
  assert.equal((await occurrence(recording, second, -1, () => false))?.item, 1);
  assert.equal(await occurrence(recording, first, -1, () => false), undefined);
});

void test("an area's totals count the parts inside it only", async () => {
  const totals = await areaTotals(recording, recording.lines, 702, 740, () => false);
  assert(totals);
  // Thread 0's slice from 700 to 705 has 3 inside, thread 1's from 710 has 30, thread 2's is whole.
  const sums = [...totals.names].map(([value, row]) => `${NAMES[value >> 4]} ${row.total}`);
  assert.deepEqual(sums, ["spmv transposed 3", "spmv 30", "Assemble 5"]);
  const nothing = await areaTotals(recording, [recording.lines[0]!], 5, 100, () => false);
  assert.equal(nothing?.names.size, 0, "slices that only touch the area are not in it");
});
