// The account's classes are the file's own list: whatever their number, no pixel takes from its neighbour.
import { test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { Account } from "../../src/data/account";
import { Kind } from "../../src/data/index";
import { Recording } from "../../src/data/recording";
import { classOrder, knownClassColour } from "../../src/draw/palette";
import { blockOf, column, recordingOf, u32, u64 } from "./made";

/** Keys of the classes as `kasuri stat --json` has them. */
function writersClasses(): string[] {
  const schema = JSON.parse(readFileSync("../docs/schema/stat-1.json", "utf8")) as { $defs: { ClassSum: { properties: { class: { enum: string[] } } } } };
  return schema.$defs.ClassSum.properties.class.enum;
}

void test("each class of the writer has a colour in both themes, and no two share one", () => {
  for (const dark of [false, true]) {
    const colours = writersClasses().map((key) => knownClassColour(key, dark));
    assert.ok(colours.every((rgb) => rgb !== undefined), "a class without a colour");
    assert.equal(new Set(colours).size, colours.length);
  }
});

void test("the stack has every class of the file once, unknown ones on top", () => {
  const keys = [...writersClasses(), "of_the_future"];
  const order = classOrder(keys);
  assert.deepEqual([...order].sort((a, b) => a - b), keys.map((_, c) => c));
  assert.equal(order.at(-1), keys.length - 1);
});

/** One CPU's account of 0..1000 with a segment for each of `values`, in a file that lists `n` classes. */
async function accountOf(values: number[], n: number): Promise<Account> {
  const made = recordingOf(["work"], [[{ start: 0, end: 1000, name: 0, kind: 0 }]]);
  const each = 1000 / values.length;
  const segments = [...u32(values.length), ...u64(0), ...column(values.map(() => 0)), ...column(values.map(() => each)), ...column(values), ...column(values.map(() => 0))];
  const { index } = made;
  index.lines.push({ kind: Kind.Account, owner: 0, depth: 0, items: values.length, units: [1, 0, values.length, 0, 1000] });
  const classes = Array.from({ length: n }, (_, c): [string, string, string, boolean, boolean] => [`class${c}`, `class ${c}`, "", c === 0, false]);
  index.account = { classes, causes: [{ class: 0, text: "", object: "", thread: -1 }], buckets: 0, mixes: [], waits: [] };
  const recording = new Recording(index, () => Promise.resolve(blockOf(segments)));
  const account = new Account(recording);
  await recording.unit(account.lines[0]!, 0);
  return account;
}

void test("a pixel holds the shares of its own segments, with as many classes as the file lists", async () => {
  for (const n of [16, 17, 40]) {
    const account = await accountOf([n - 1, 0, n - 1, 0], n);
    const { shares, complete } = account.shares(0, 1000, 4, undefined);
    assert.ok(complete);
    assert.equal(shares.length, 4 * n);
    for (let pixel = 0; pixel < 4; pixel++) {
      const own = shares.subarray(pixel * n, (pixel + 1) * n);
      assert.ok(Math.abs(own.reduce((a, b) => a + b) - 1) < 1e-6, `pixel ${pixel} of ${n} classes`);
      assert.ok(own[pixel % 2 === 0 ? n - 1 : 0]! > 0.999);
    }
    const sums = await account.sums(0, 1000, undefined, () => false);
    assert.deepEqual([sums!.classes[n - 1], sums!.classes[0], sums!.capacity], [500, 500, 1000]);
  }
});

void test("a class that the file does not list is nobody's, not the next pixel's", async () => {
  const account = await accountOf([16, 0], 16);
  const { shares } = account.shares(0, 1000, 2, undefined);
  assert.equal(shares.subarray(0, 16).reduce((a, b) => a + b), 0);
  assert.ok(Math.abs(shares.subarray(16).reduce((a, b) => a + b) - 1) < 1e-6);
  const sums = await account.sums(0, 1000, undefined, () => false);
  assert.equal(sums!.capacity, 500);
});
