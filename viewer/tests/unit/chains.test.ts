// The chain behind a wait: who ends it, what that thread does at the same instant, and so on.
import { test } from "node:test";
import assert from "node:assert/strict";
import { chainAt } from "../../src/data/chains";
import { State } from "../../src/data/index";
import { itemAt } from "../../src/data/query";
import { type MadeState, recordingOfStates } from "./made";

const { Running, Woken, Preempted, Sleeping, Disk } = State;
type Short = [start: number, end: number, state: number, by?: number];
const states = (...rows: Short[]): MadeState[] => rows.map(([start, end, state, by]) => ({ start, end, state, by: by ?? -1 }));

/** Threads and what they did in the chain of thread 0 at `t`: `1 waited, 2 ran`. */
async function chain(threads: MadeState[][], t: number, programs?: boolean[]): Promise<string> {
  const recording = recordingOfStates(threads, programs);
  const item = await itemAt(recording, recording.lines[0]!, t);
  assert.ok(item, `a state at ${t}`);
  const links = await chainAt(recording, item, t);
  return links.map(({ thread, did }) => `${thread} ${did}`).join(", ");
}

// A consumer, the filter that wakes it, the producer that wakes that, an interrupt that wakes the producer.
const PIPELINE = [
  states([0, 90, Sleeping], [90, 92, Woken, 1], [92, 100, Running]),
  states([0, 60, Sleeping], [60, 70, Woken, 2], [70, 95, Running], [95, 100, Sleeping]),
  states([0, 20, Sleeping], [20, 25, Woken], [25, 40, Running], [40, 50, Preempted, 3], [50, 65, Running], [65, 100, Sleeping]),
];

void test("a wait is followed to the thread that ends it, at the same instant", async () => {
  for (const [t, expected] of [
    [10, "1 waited, 2 waited, -1 nobody"],
    [22, "1 waited, 2 ready"],
    [30, "1 waited, 2 ran"],
    [45, "1 waited, 2 ready"],
    [55, "1 waited, 2 ran"],
    [65, "1 ready"],
    [75, "1 ran"],
  ] as const) assert.equal(await chain(PIPELINE, t), expected, `at ${t}`);
});

void test("two blocked states in a row are one wait", async () => {
  const [, ...others] = PIPELINE;
  const consumer = states([0, 30, Sleeping], [30, 90, Disk], [90, 92, Woken, 1], [92, 100, Running]);
  assert.equal(await chain([consumer, ...others], 10), "1 waited, 2 waited, -1 nobody");
  assert.equal(await chain([consumer, ...others], 55), "1 waited, 2 ran");
});

void test("a chain ends where nobody is known, or where another program begins", async () => {
  const waits = states([0, 50, Sleeping], [50, 52, Woken, 1], [52, 100, Running]);
  assert.equal(await chain([waits, states([0, 100, Running])], 10, [true, false]), "1 process");
  assert.equal(await chain([waits, states([30, 100, Running])], 10), "1 unborn");
  assert.equal(await chain([states([0, 100, Sleeping])], 10), "-1 endless");
  // Itself, running at once, and a thread that the file does not have.
  assert.equal(await chain([states([0, 50, Sleeping], [50, 60, Woken, 0], [60, 70, Running])], 10), "-1 nobody");
  assert.equal(await chain([states([0, 50, Sleeping], [50, 60, Running])], 10), "-1 nobody");
  assert.equal(await chain([states([0, 50, Sleeping], [50, 60, Woken, 7])], 10), "-1 nobody");
});

void test("a file that lies about who woke whom has no endless chain", async () => {
  const circle = (by: number): MadeState[] => states([0, 50, Sleeping], [50, 60, Woken, by], [60, 70, Running]);
  const links = (await chain([circle(1), circle(0)], 10)).split(", ");
  assert.equal(links.length, 8);
});
