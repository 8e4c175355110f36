// The code behind the account: each part of a class's time is counted once, wherever an area cuts it.
import { test } from "node:test";
import assert from "node:assert/strict";
import type { CallPaths } from "../../src/data/call-paths";
import { addUpLoss, type CpuPieces } from "../../src/data/pieces";

const WORK = 0;
const LOCK = 6;
const at = (path: number, complete: boolean): number => 2 + 2 * path + (complete ? 1 : 0);

type Piece = [begin: number, end: number, loss: number, code: number];
const cpu = (number: number, pieces: Piece[]): CpuPieces => ({
  cpu: number,
  begin: Float64Array.from(pieces, ([begin]) => begin),
  end: Float64Array.from(pieces, ([, end]) => end),
  of: Uint8Array.from(pieces, ([, , loss]) => loss),
  code: Uint32Array.from(pieces, ([, , , code]) => code),
});

const paths = { frame: new Uint32Array(3) } as unknown as CallPaths;
const all = [
  cpu(0, [[0, 10, WORK, at(0, true)], [10, 40, LOCK, at(1, true)], [40, 50, LOCK, 1], [50, 60, LOCK, 0], [60, 100, LOCK, at(2, false)]]),
  cpu(2, [[0, 80, LOCK, at(1, true)], [80, 100, WORK, 1]]),
];

void test("a class's time: with a path, unsampled, without code; other classes are not in it", () => {
  const { times, without } = addUpLoss(paths, all, { loss: LOCK, cpus: undefined, spans: [[0, 100]] });
  assert.deepEqual([...times.running], [0, 110, 40]);
  assert.deepEqual([times.runningUnsampled, without, times.complete, times.incomplete, times.waitingUnsampled], [10, 10, 110, 40, 0]);
});

void test("an area cuts pieces at its edges; spans that meet count nothing twice", () => {
  const sum = (spans: [number, number][], cpus?: Set<number>): number => {
    const { times, without } = addUpLoss(paths, all, { loss: LOCK, cpus, spans });
    return times.running.reduce((a, b) => a + b) + times.runningUnsampled + without;
  };
  assert.equal(sum([[0, 100]]), 170);
  for (const cut of [0, 5, 10, 25, 40, 55, 60, 99, 100]) assert.equal(sum([[0, cut], [cut, 100]]), 170, `cut at ${cut}`);
  assert.equal(sum([[25, 65]], new Set([0])), 40);
  assert.equal(sum([[25, 65]], new Set([2])), 40);
  assert.equal(sum([[25, 65]], new Set([1])), 0);
  assert.equal(sum([]), 0);
});
