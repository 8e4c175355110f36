import assert from "node:assert/strict";
import { test } from "node:test";
import { printable } from "../../src/data/printable";

void test("no name turns what stands beside it around, and other writing stays", () => {
  assert.equal(printable("a\u202ecod.exe \u2067x\u2069\u061c\u200f"), "a\ufffdcod.exe \ufffdx\ufffd\ufffd\ufffd");
  const names = "sch\u00f6n \u7d63 \u0627\u0644\u0639 \u05e9\u05dc\u05d5\u05dd \u{1f980}";
  assert.equal(printable(names), names);
});
