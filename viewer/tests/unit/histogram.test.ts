import assert from "node:assert/strict";
import { test } from "node:test";
import { bars, binOf, binsOf, edgeOf, quantile } from "../../src/data/histogram";
import type { NameRow } from "../../src/data/index";

function row(durations: number[]): NameRow {
  const counts = new Map<number, number>();
  for (const ns of durations) counts.set(binOf(ns), (counts.get(binOf(ns)) ?? 0) + 1);
  const bins = [...counts].sort((a, b) => a[0] - b[0]).flat();
  return { name: 0, kind: 0, count: durations.length, total: 0, max: Math.max(...durations), line: 0, item: 0, start: 0, bins };
}

void test("every duration lies in its bin, up to the longest that a page can count", () => {
  for (let ns = 0; ns < 5000; ns++) assert(edgeOf(binOf(ns)) <= ns && ns < edgeOf(binOf(ns) + 1), `${ns}`);
  for (let e = 13; e < 53; e++) {
    for (const ns of [2 ** e - 1, 2 ** e, 2 ** e + 1, 1.7 * 2 ** e]) {
      const whole = Math.floor(ns);
      assert(edgeOf(binOf(whole)) <= whole && whole < edgeOf(binOf(whole) + 1), `${whole}`);
    }
  }
});

void test("bins are those of the writer", () => {
  // The same numbers stand in names.rs.
  assert.deepEqual([16, 17, 18, 31, 32].map(binOf), [16, 16, 17, 23, 24]);
});

void test("bars lose no slice", () => {
  const durations = Array.from({ length: 1000 }, (_, i) => Math.floor(50 * 1.013 ** i));
  const bins = binsOf(row(durations));
  for (const most of [4, 20, 60]) {
    const drawn = bars(bins, most);
    assert(drawn.length <= most);
    assert.equal(drawn.reduce((sum, bar) => sum + bar.count, 0), 1000);
  }
});

void test("quantiles are right to a bin", () => {
  const bins = binsOf(row(Array.from({ length: 1000 }, (_, i) => 1000 + i)));
  for (const share of [0.1, 0.5, 0.9]) assert(Math.abs(quantile(bins, share) - (1000 + 1000 * share)) < 130, `${share}`);
  assert.equal(quantile(binsOf({ ...row([77]), bins: [] }), 0.5), 77.5);
});
