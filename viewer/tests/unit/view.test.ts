import assert from "node:assert/strict";
import { test } from "node:test";
import { Kind, State, STATE_NAMES } from "../../src/data/index";
import { format, parse } from "../../src/view/fragment";
import { Arranger, COMPACT, rowAt, trackAt, type Choices } from "../../src/view/layout";
import { clampRange, fitted, MIN_NS, panned, timeAt, xOf, zoomed, type Viewport } from "../../src/view/viewport";
import { duration, instant, percent, tickLabel, tickStep } from "../../src/view/units";
import { homeOf, lifeOf } from "../../src/ui/life";
import { recordingOf } from "./made";

const view = (t0: number, t1: number): Viewport => ({ t0, t1, width: 1000, height: 500, scroll: 0 });

void test("a time is drawn where the pointer finds it, later ones to the right", () => {
  const shown = view(2e6, 4e6);
  assert.deepEqual([2e6, 2.5e6, 4e6, 5e6].map((t) => xOf(shown, t)), [0, 250, 1000, 1500]);
  for (const t of [1e6, 2e6, 3.3e6]) assert(Math.abs(timeAt(shown, xOf(shown, t)) - t) < 1e-3);
});

void test("zooming keeps the time under the pointer", () => {
  for (const x of [0, 250, 999]) {
    const before = view(2e6, 4e6);
    const [t0, t1] = zoomed(before, 0.1, x, 1e7);
    assert(Math.abs(timeAt(view(t0, t1), x) - timeAt(before, x)) < 1e-3);
  }
});

void test("no view leaves the axis or gets thinner than the clock", () => {
  const length = 1e6;
  for (const [t0, t1] of [[-1e9, -9e8], [5e8, 6e8], [0, 1e12], [3, 3.0001], [7, 7], [NaN, 1]] as const) {
    const [a, b] = clampRange(t0, t1, length);
    assert(b - a >= MIN_NS && b > 0 && a < length, `${t0}..${t1} became ${a}..${b}`);
    assert(b - a <= 1.2 * length + 1e-6);
  }
  const [a, b] = panned(view(0, 1e6), 1e9, length);
  assert(a < length && b > length * 0.9);
  const [c, d] = fitted(100, 200, length, 0.5);
  assert(c < 100 && d > 200 && d - c === 200);
});

void test("times read well", () => {
  assert.deepEqual([0, 7, 1500, 12_345_678, 3.2e9, -1500].map(duration), ["0 ns", "7 ns", "1.5 us", "12.35 ms", "3.2 s", "-1.5 us"]);
  assert.equal(instant(1_000_234_567), "1.000 234 567 s");
  assert.equal(percent(1, 3), "33.3 %");
  assert.equal(percent(1, 0), "-");
  assert.deepEqual([percent(0, 9), percent(1, 1e5), percent(99_999, 1e5), percent(9, 9)], ["0 %", "<0.1 %", ">99.9 %", "100 %"]);
  assert.deepEqual([1, 3, 140, 0.2].map(tickStep), [1, 5, 200, 1]);
  assert.equal(tickLabel(1_500_000, 100_000, 2_000_000), "1.5 ms");
  assert.equal(tickLabel(0, 1e9, 5e9), "0 s");
});

void test("the address keeps the view, and nonsense in it is left out", () => {
  const saved = { t0: 5, t1: 90, selected: [3, 44] as [number, number], pinned: ["t5", "cpu0"], hidden: ["t6"], filter: "a b&c", compact: true, search: "/x=y/", arrows: ["wake", "steal"], notes: [{ t0: 5, t1: 9, text: "50 % here & ~there~ # \u00e9" }], area: { t0: 1, t1: 2, tracks: ["cpu0", "t12"] }, scroll: 12 };
  assert.deepEqual(parse(`#${format(saved)}`), saved);
  assert.deepEqual(parse("#t=9~3&sel=1&y=zz&pin=,"), { pinned: [] });
  assert.deepEqual(parse(""), {});
});

void test("rows are where the layout says; pinned ones first, hidden ones nowhere", () => {
  const recording = recordingOf(["n"], [0, 1, 2].map((t) => [{ start: t, end: t + 5, name: 0, kind: 0 }]));
  const arranger = new Arranger(recording.index, recording.lines);
  const choices: Choices = { toggled: new Set(), hidden: new Set(["t11"]), pinned: ["t12"], filter: "" };
  const layout = arranger.arrange(choices);
  assert.deepEqual(layout.pinned.map((track) => track.id), ["t12"]);
  assert.deepEqual(layout.tracks.map((track) => track.id), ["cpus", "cpu0", "cpu1", "p1", "t10"]);
  for (const track of layout.tracks) {
    const found = trackAt(layout, layout.pinnedHeight + track.y + 1, 0);
    assert.equal(found?.track.id, track.id);
  }
  const thread = layout.tracks.at(-1)!;
  assert.equal(rowAt(thread, thread.rows[0]!.y + 2)?.line, recording.lines[0]);
  const folded = arranger.arrange({ ...choices, toggled: new Set(["cpus", "p1"]) });
  assert.deepEqual(folded.tracks.map((track) => track.id), ["cpus", "p1"]);
  const filtered = arranger.arrange({ toggled: new Set(), hidden: new Set(), pinned: [], filter: "tid 11" });
  assert.deepEqual(filtered.tracks.map((track) => track.id), ["p1", "t11"]);
});

void test("ids used again have tracks of their own, found from any line of theirs", () => {
  const recording = recordingOf(["n"], [0, 1, 2].map((t) => [{ start: t, end: t + 5, name: 0, kind: 0 }]));
  const { index, lines } = recording;
  // The second process and its thread have the ids of the first's; the third is a stranger with the same ids.
  const [process] = index.processes;
  const part = (n: number, target: boolean): typeof process => ({ ...process!, pid: 7, target, threads: [n, n + 1] });
  index.processes = [part(0, true), part(1, true), part(2, false)] as typeof index.processes;
  index.threads.forEach((thread, t) => Object.assign(thread, { tid: 9, process: t }));
  const arranger = new Arranger(index, lines);
  const closed = ["p7", "p7.1"];
  for (const [t, line] of lines.entries()) {
    const id = arranger.idOf(line);
    assert.equal(id, ["t9", "t9.1", "t9.2"][t]);
    const above = arranger.above(line);
    assert.deepEqual(above, [["p7"], ["p7.1"], ["others", "p7.2"]][t]);
    // All is closed but what is above the line: then exactly its track shows.
    const toggled = new Set(closed.filter((p) => !above.includes(p)));
    for (const other of above.filter((a) => a === "others" || a === "p7.2")) toggled.add(other);
    const { tracks } = arranger.arrange({ toggled, hidden: new Set(), pinned: [], filter: "" });
    const shown = tracks.filter((track) => track.kind === "thread");
    assert.deepEqual(shown.map((track) => track.id), [id]);
    assert.equal(shown[0]!.rows[0]!.line, line);
  }
});

void test("processes stand by CPU time; many small ones without annotations fold, and any line in them is found", () => {
  const recording = recordingOf(["n", "sh"], Array.from({ length: 8 }, (_, t) => [{ start: t, end: t + 5, name: 0, kind: 0 }]));
  const { index, lines } = recording;
  // ns on CPU of one process each; the third is small, but annotated.
  const cpu = [1, 500, 2, 400, 3, 4, 5, 6];
  index.processes = cpu.map((_, p) => ({ pid: 100 + p, name: p > 3 ? 1 : 0, parent: -1, target: true, threads: [p, p + 1] as [number, number] }));
  index.threads.forEach((thread, t) => Object.assign(thread, { process: t, states: STATE_NAMES.map((_, state) => (state === State.Running ? cpu[t]! : 0)) }));
  const annotated = 2;
  for (const line of lines) if (line.owner !== annotated) line.kind = Kind.State;
  const arranger = new Arranger(index, lines);
  const ids = (toggled: string[]): string[] => arranger.arrange({ toggled: new Set(toggled), hidden: new Set(), pinned: [], filter: "" }).tracks.filter(({ kind }) => kind === "process" || kind === "group").map(({ id }) => id);
  // The one that was started stays, however little it did.
  assert.deepEqual(ids([]), ["cpus", "p101", "p103", "p102", "p100", "small"]);
  assert.deepEqual(ids(["small"]), ["cpus", "p101", "p103", "p102", "p100", "small", "p107", "p106", "p105", "p104"]);
  const heading = arranger.arrange({ toggled: new Set(), hidden: new Set(), pinned: [], filter: "" }).tracks.at(-1)!;
  assert.deepEqual([heading.title, heading.detail, heading.density?.length], ["4 small processes", "each below 1 % of the CPU time: 4 sh", 4]);
  assert.deepEqual(lines.map((line) => arranger.above(line)), cpu.map((_, p) => [...(p > 3 ? ["small"] : []), `p${100 + p}`]));
  // A few do not fold: a heading would take as much room.
  index.processes[4]!.target = false;
  assert.deepEqual(ids([]), ["cpus", "p101", "p103", "p107", "p106", "p105", "p102", "p100", "others"]);
});

/** A layout of `n` threads with one line each, compact, in `room` pixels. */
function compactOf(n: number, room: number, pinned: string[] = []) {
  const recording = recordingOf(["n"], Array.from({ length: n }, (_, t) => [{ start: t, end: t + 5, name: 0, kind: 0 }]));
  const arranger = new Arranger(recording.index, recording.lines);
  return arranger.arrange({ toggled: new Set(), hidden: new Set(), pinned, filter: "", compact: true }, room);
}

void test("compact rows are as tall as lets all fit, and of the usual height where they cannot", () => {
  for (const n of [2, 20, 60]) {
    const layout = compactOf(n, 540);
    const threads = layout.tracks.filter((track) => track.kind === "thread");
    assert.equal(threads.length, n);
    assert(layout.height <= 540, `${n} threads take ${layout.height}`);
    const height = threads[0]!.height;
    assert(height >= COMPACT.least && height <= COMPACT.most, `${n} threads have ${height}`);
    // A pixel more for each would not fit, or is not wanted.
    assert(height === COMPACT.most || layout.height + n + 2 > 540);
  }
  const many = compactOf(1000, 540);
  assert(many.tracks.filter((track) => track.kind === "thread").every((track) => track.height === COMPACT.usual));
  assert(many.height > 10_000);
});

void test("in compact rows every track has its rows inside, and a pinned one is full", () => {
  const layout = compactOf(60, 540, ["t13"]);
  for (const track of layout.tracks) {
    for (const row of track.rows) assert(row.y >= 0 && row.height > 0 && row.y + row.height < track.height, `${track.id}: ${row.y} + ${row.height} of ${track.height}`);
    const found = trackAt(layout, layout.pinnedHeight + track.y + 1, 0);
    assert.equal(found?.track.id, track.id);
  }
  assert.deepEqual(layout.pinned.map((track) => [track.id, track.compact, track.height > COMPACT.most]), [["t13", undefined, true]]);
});

void test("the view begins with the part without time stamps that stand apart", () => {
  const recording = recordingOf(["work"], [[{ start: 0, end: 10, name: 0, kind: 0 }, { start: 1e9, end: 1e9 + 1000, name: 0, kind: 0 }]]);
  const { index } = recording;
  assert.deepEqual(lifeOf(recording), [0, recording.length]);
  index.without_stray = [1e9, 1e9 + 1000];
  assert.deepEqual(lifeOf(recording), [1e9, 1e9 + 1000]);
  const [t0, t1] = homeOf(recording);
  assert(t0 < 1e9 && t1 > 1e9 + 1000 && t1 - t0 < 1100);
  // The program's life is cut to it, and is not shown where it lies outside.
  index.processes = [{ ...index.processes[0]!, target: true }];
  const lived = (from: number, to: number): void => {
    index.threads = [{ ...index.threads[0]!, process: 0, alive: [from, to] }];
  };
  lived(0, 1e9 + 500);
  assert.deepEqual(lifeOf(recording), [1e9, 1e9 + 500]);
  lived(0, 10);
  assert.deepEqual(lifeOf(recording), [1e9, 1e9 + 1000]);
});
