// The cache of units and tiles: bounded, and what was looked at last stays.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Lru } from "../../src/data/lru";

void test("what was used last is kept, the rest is forgotten beyond the limit", () => {
  const kept = new Lru<number>(10, (size) => size);
  kept.add(1, 4);
  kept.add(2, 4);
  assert.equal(kept.get(1), 4);
  kept.add(3, 4);
  assert.deepEqual([1, 2, 3].map((key) => kept.has(key)), [true, false, true]);
  // One that is larger than the limit is kept alone: it is wanted now.
  kept.add(4, 40);
  assert.deepEqual([1, 3, 4].map((key) => kept.has(key)), [false, false, true]);
  kept.add(5, 1);
  assert.deepEqual([4, 5].map((key) => kept.has(key)), [false, true]);
});
