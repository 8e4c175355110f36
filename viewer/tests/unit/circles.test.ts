import assert from "node:assert/strict";
import { test } from "node:test";
import { circleIn } from "../../lint/circle-in.mjs";

void test("a circle of imports is found, wherever it begins, and a graph without one passes", () => {
  const graph = (edges: Record<string, string[]>): Map<string, string[]> => new Map(Object.entries(edges));
  assert.equal(circleIn(graph({ a: ["b", "c"], b: ["d"], c: ["d"], d: [] })), undefined);
  assert.deepEqual(circleIn(graph({ a: ["b"], b: ["c"], c: ["d"], d: ["b"] })), ["b", "c", "d", "b"]);
  assert.deepEqual(circleIn(graph({ a: ["a"] })), ["a", "a"]);
});
