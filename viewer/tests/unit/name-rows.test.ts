// The rows of CPUs by what was annotated: exact where items are joined, never a wait's name where only levels are looked at.
import { test } from "node:test";
import assert from "node:assert/strict";
import type { Unit } from "../../src/data/columns";
import { SliceKind } from "../../src/data/index";
import { encodeNamed } from "../../src/data/value";
import { colourByName, innermost, NameFrame, NameRows, numberOf, NUMBERS, type Flat } from "../../src/draw/name-rows";
import { Inks } from "../../src/draw/palette";
import type { Line, Recording } from "../../src/data/recording";
import { Kind } from "../../src/data/index";

type Item = [start: number, end: number, value: number];
const unitOf = (items: Item[]): Unit => ({ n: items.length, start: Float64Array.from(items, ([start]) => start), end: Float64Array.from(items, ([, end]) => end), value: Uint32Array.from(items, ([, , value]) => value) }) as unknown as Unit;
const parts = (...depths: Item[][]): { unit: Unit; i0: number; i1: number }[][] => depths.map((items) => [{ unit: unitOf(items), i0: 0, i1: items.length }]);
const rows = ({ start, end, value }: Flat): Item[] => start.map((from, i) => [from, end[i]!, value[i]!]);

const step = encodeNamed(1, SliceKind.Work);
const solve = encodeNamed(2, SliceKind.Work);
const held = encodeNamed(3, SliceKind.LockHold);
const barrier = encodeNamed(4, SliceKind.Barrier);

void test("innermost annotations: what encloses is cut where something inside it is, a held lock hides nothing", () => {
  assert.deepEqual(rows(innermost(parts([[0, 100, step]], [[10, 30, solve], [50, 60, barrier]]))), [[0, 10, step], [10, 30, solve], [30, 50, step], [50, 60, barrier], [60, 100, step]]);
  assert.deepEqual(rows(innermost(parts([[0, 100, step]], [[20, 40, held]], [[25, 30, solve]]))), [[0, 25, step], [25, 30, solve], [30, 100, step]]);
  // A hold around work, work beside work, an inner slice without an outer one.
  assert.deepEqual(rows(innermost(parts([[0, 50, held], [60, 70, step]], [[10, 20, solve], [80, 90, solve]]))), [[10, 20, solve], [60, 70, step], [80, 90, solve]]);
  assert.deepEqual(rows(innermost([])), []);
});

/** A recording of one CPU and of threads with slices, all decoded. */
function made(cpu: Item[], threads: Item[][][]): { recording: Recording; cpu: Line; slices: Map<number, Line[]> } {
  const units = new Map<Line, Unit>();
  let ix = 0;
  const line = (kind: number, owner: number, depth: number, items: Item[]): Line => {
    const made = { ix: ix++, kind, owner, depth, items: items.length, nUnits: 1, from: Float64Array.of(items[0]?.[0] ?? 0), to: Float64Array.of(items.at(-1)?.[1] ?? 0), base: Float64Array.of(0, items.length), levels: [] } as unknown as Line;
    units.set(made, unitOf(items));
    return made;
  };
  const slices = new Map(threads.map((depths, t) => [t, depths.map((items, depth) => line(Kind.Slice, t, depth, items))]));
  const get = (line: Line): Unit | undefined => units.get(line);
  return { recording: { want: get, peek: get } as unknown as Recording, cpu: line(Kind.Cpu, 0, 0, cpu), slices };
}

const values = [0, step, solve, held, barrier];
const numbers = new Inks((value) => Math.max(0, values.indexOf(value)), 256);
const span = { t0: 0, t1: 100, width: 10, length: 100 };

void test("a CPU's pixels: the annotation it was in longest while the thread had it, not the one that was open longest", () => {
  // Thread 0 works from 0 to 4 and waits in the barrier, off the CPU, till 10; thread 1 has no annotation.
  const { recording, cpu, slices } = made([[0, 4, 1], [20, 50, 2], [60, 65, 1]], [[[[0, 4, step], [4, 10, barrier], [62, 64, solve]]], []]);
  const frame = new NameFrame(recording, slices, span, numbers, values, false);
  const keys = [...frame.keys(cpu)];
  assert.deepEqual(keys, [step + 1, 0, -2, -2, -2, 0, -1, 0, 0, 0]);
  assert(frame.complete);
  // The coarse way sees only what filled a pixel most: a wait's name is no answer, the thread is.
  const coarse = [...new NameFrame(recording, slices, span, numbers, values, true).keys(cpu)];
  assert.deepEqual(coarse, [-1, 0, -2, -2, -2, 0, solve + 1, 0, 0, 0]);
});

void test("nested levels: the inner annotation where it fills most of a pixel, else the outer one", () => {
  const { recording, cpu, slices } = made([[0, 100, 1]], [[[[0, 100, step]], [[0, 13, solve], [47, 50, solve]]]]);
  for (const coarse of [false, true]) {
    const keys = [...new NameFrame(recording, slices, span, numbers, values, coarse).keys(cpu)];
    assert.deepEqual(keys, [solve + 1, ...Array<number>(9).fill(step + 1)], `coarse: ${coarse}`);
  }
});

void test("a unit that is not decoded yet: the row is not complete", () => {
  const { recording, cpu, slices } = made([[0, 100, 1]], [[[[0, 100, step]]]]);
  const missing = { ...recording, want: (line: Line) => (line === cpu ? recording.want(line, 0) : undefined), peek: () => undefined } as unknown as Recording;
  const frame = new NameFrame(missing, slices, span, numbers, values, false);
  frame.keys(cpu);
  assert.equal(frame.complete, false);
});

void test("numbers painted as colours are read back", () => {
  for (const n of [1, 255, 256, 65_535, 65_536, 1 << 20, (1 << 24) - 1]) assert.equal(numberOf(NUMBERS.of(n)), n);
});

void test("colours: runs of one annotation, threads without one in their colour, what is not looked for pale, idle left alone", () => {
  const body = new Uint32Array([0xff111111, 0xff111111, 0x80111111, 0, 0xff111111]);
  const keys = Int32Array.of(step + 1, step + 1, solve + 1, 0, -8);
  const runs = colourByName(body, keys, (value) => (value === step ? 0x0000aa : 0xbb0000), (thread) => 0x100 * thread, (value) => value === solve);
  assert.deepEqual(runs, [{ x0: 0, x1: 2, value: step }, { x0: 2, x1: 3, value: solve }]);
  assert.deepEqual([...body], [0xffaa0000, 0xffaa0000, 0x1c0000bb, 0, 0xff000700]);
});

void test("items are joined where few are in view, though their units hold many more", () => {
  const n = 100_000;
  const { recording, cpu, slices } = made([[0, 10 * n, 1]], [[Array.from({ length: n }, (_, i): Item => [10 * i, 10 * i + 5, i % 2 === 0 ? step : barrier])]]);
  const lines = [cpu, ...slices.get(0)!];
  const rows = new NameRows({ ...recording, lines, index: { names: [{ name: 1, kind: SliceKind.Work }, { name: 4, kind: SliceKind.Barrier }], strings: Array<string>(9).fill("") } } as unknown as Recording);
  const keys = (t0: number, t1: number): number[] => [...rows.frame({ t0, t1, width: 4, length: 10 * n }).keys(cpu)];
  // A wait has a name only where items are joined.
  assert.deepEqual(keys(0, 20), [step + 1, -1, barrier + 1, -1]);
  // All of it is not joined: 100,000 slices.
  assert(keys(0, 10 * n).every((key) => key === step + 1 || key === -1));
});
