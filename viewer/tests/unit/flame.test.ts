// Time by code: sums over spans, trees of boxes, and what one function's callers and callees add up to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ManySamples } from "../../bench/flame";
import { CodeKind, Moment, treeOf, type CallPaths } from "../../src/data/call-paths";
import { addUp, byFunction, calleeTree, callerTree, Group, matched, runningAt, sandwich, waitAt, waitingCall, Weights, type Box, type CodeQuery } from "../../src/data/flame";
import { State } from "../../src/data/index";
import { compared, inCommon, pointsOf, sharesByFunction } from "../../src/data/flame-diff";
import { CodeColours, colourByFunction, colourCpuByFunction } from "../../src/draw/code-rows";
import { stateColour } from "../../src/draw/palette";
import { placeSandwich, placeTree } from "../../src/draw/flame";
import { joined, outside } from "../../src/ui/code-subject";
import { shortName } from "../../src/view/code-name";

interface Sample {
  thread?: number;
  time: number;
  path: number;
  weight: number;
  moment?: number;
  wait?: [number, number];
  incomplete?: boolean;
}

/** `paths`: caller's row and function of each; every function has one frame, in a line of its own. */
function made(paths: [number, number][], samples: Sample[], threads = 1): CallPaths {
  const functions = 1 + Math.max(...paths.map(([, fn]) => fn));
  const frame = Uint32Array.from(paths, ([, fn]) => fn);
  const caller = Int32Array.from(paths, ([caller]) => caller);
  const fn = Uint32Array.from({ length: functions }, (_, f) => f);
  const cells = 10;
  return {
    functions: Array.from({ length: functions }, (_, f) => ({ name: `f${f}`, module: "", kind: CodeKind.Native })),
    frames: { fn, file: new Int32Array(functions).fill(-1), line: new Uint32Array(functions) },
    frame,
    caller,
    ...treeOf(frame, caller, fn),
    unsampled: { cells, width: 100, running: new Float64Array(threads * cells).fill(10), waiting: new Float64Array(threads * cells) },
    samples: {
      first: Uint32Array.from({ length: threads + 1 }, (_, t) => samples.filter(({ thread }) => (thread ?? 0) < t).length),
      time: Float64Array.from(samples, ({ time }) => time),
      bits: Uint8Array.from(samples, ({ moment, incomplete }) => (moment ?? Moment.OnCpu) | (incomplete ? 0 : 16)),
      path: Int32Array.from(samples, ({ path }) => path),
      weight: Float64Array.from(samples, ({ weight }) => weight),
      begin: Float64Array.from(samples, ({ time, wait }) => wait?.[0] ?? time),
      end: Float64Array.from(samples, ({ time, wait }) => wait?.[1] ?? time),
    },
  };
}

const span = (t0: number, t1: number, threads = [0]): CodeQuery => ({ threads, spans: () => [[t0, t1]] });
const running = (paths: CallPaths, query: CodeQuery): Weights => {
  const times = addUp(paths, query);
  return new Weights(paths, times.running, times.runningLost);
};
/** A tree as text: `0:30(1:20 2:10)`. */
function text(box: Box): string {
  const inner = box.children().map(text).join(" ");
  return `${box.fn}:${box.total}${inner === "" ? "" : `(${inner})`}`;
}

// main 0 -> work 1 -> leaf 2; main -> leaf; main -> work -> work -> leaf: recursion.
const PATHS: [number, number][] = [[-1, 0], [0, 1], [1, 2], [0, 2], [1, 1], [4, 2]];
const SAMPLES: Sample[] = [
  { time: 10, path: 2, weight: 10 },
  { time: 20, path: 3, weight: 20 },
  { time: 30, path: 1, weight: 5 },
  { time: 40, path: 5, weight: 7, incomplete: true },
  { time: 50, path: -1, weight: 3 },
  { time: 60, path: 2, weight: 40, moment: Moment.Blocked, wait: [60, 100] },
];

void test("a tree has each sample's time in its function and in all its callers; the rest has no stack", () => {
  const root = calleeTree(running(made(PATHS, SAMPLES), span(0, 1000)), Group.All);
  assert.equal(text(root), `-1:45(0:42(1:22(2:10 1:7(2:7)) 2:20) ${Group.NoStack}:3)`);
  assert.equal(root.children()[0]!.children()[0]!.self, 5);
});

void test("by function: each with its callers below", () => {
  const root = callerTree(running(made(PATHS, SAMPLES), span(0, 1000)), Group.All);
  assert.equal(text(root), `-1:45(2:37(0:20 1:17(0:10 1:7(0:7))) 1:5(0:5) ${Group.NoStack}:3)`);
});

void test("a function's callers and callees have its time, recursion counted once", () => {
  const weights = running(made(PATHS, SAMPLES), span(0, 1000));
  const { callees, callers } = sandwich(weights, 1);
  assert.equal(text(callees), "1:22(2:10 1:7(2:7))");
  assert.equal(text(callers), "1:22(0:22)");
  assert.deepEqual(byFunction(weights, 3), [{ fn: 0, self: 0, total: 42 }, { fn: 1, self: 5, total: 22 }, { fn: 2, self: 37, total: 37 }]);
});

void test("the share of what is looked for counts each sample once", () => {
  const weights = running(made(PATHS, SAMPLES), span(0, 1000));
  assert.equal(matched(weights, Uint8Array.of(0, 1, 0)), 22);
  assert.equal(matched(weights, Uint8Array.of(1, 1, 1)), 42);
  assert.equal(matched(weights, Uint8Array.of(0, 0, 0)), 0);
});

void test("parts of a time add up to the whole: points are in one part, waits are divided", () => {
  const paths = made(PATHS, SAMPLES);
  const whole = addUp(paths, span(0, 1000));
  assert.equal(whole.waiting[2], 40);
  assert.equal(whole.runningUnsampled, 100);
  assert.equal(whole.complete, 78);
  assert.equal(whole.runningComplete, 38);
  for (const cuts of [[0, 20, 70, 1000], [0, 61, 99, 100, 1000], [0, 5, 55, 65, 1000]]) {
    const parts = cuts.slice(1).map((t1, i) => addUp(paths, span(cuts[i]!, t1)));
    const sum = (of: (times: (typeof parts)[0]) => number): number => parts.reduce((ns, part) => ns + of(part), 0);
    for (let path = 0; path < PATHS.length; path++) {
      assert.equal(sum((part) => part.running[path]!), whole.running[path], `running, ${String(cuts)}`);
      assert(Math.abs(sum((part) => part.waiting[path]!) - whole.waiting[path]!) < 1e-9, `waiting, ${String(cuts)}`);
    }
    assert(Math.abs(sum((part) => part.runningUnsampled) - 100) < 1e-9);
  }
  // From inside the wait, whose sample lies before.
  assert.equal(addUp(paths, span(80, 90)).waiting[2], 10);
});

void test("only the threads that are asked for are added up", () => {
  const paths = made(PATHS, [{ time: 5, path: 1, weight: 1 }, { thread: 1, time: 4, path: 1, weight: 2 }, { thread: 2, time: 6, path: 1, weight: 4 }], 3);
  const of = (threads: number[]): number => addUp(paths, span(0, 10, threads)).running[1]!;
  assert.deepEqual([of([0]), of([1]), of([2]), of([0, 2]), of([])], [1, 2, 4, 5, 0]);
});

void test("samples are found by moment: of a running thread the nearest, of a wait its own", () => {
  const paths = made(PATHS, SAMPLES);
  assert.equal(runningAt(paths, 0, 26, 0, 1000), 2);
  assert.equal(runningAt(paths, 0, 26, 22, 28), -1);
  assert.equal(waitAt(paths, 0, 61, 100), 5);
  assert.equal(waitAt(paths, 0, 2e6, 3e6), -1);
});

void test("boxes lie inside their callers, side by side; those too narrow are counted", () => {
  const many: [number, number][] = [[-1, 0], ...Array.from({ length: 2000 }, (_, i): [number, number] => [0, i + 1])];
  const samples = many.slice(1).map((_, i) => ({ time: i, path: i + 1, weight: i < 3 ? 10_000 : 1 }));
  const root = calleeTree(running(made(many, samples), span(0, 5000)), Group.All);
  const { placed, narrow, rows } = placeTree(root, 1000);
  assert.equal(rows, 3);
  const leaves = placed.filter(({ row }) => row === 2);
  assert.equal(leaves.length, 3);
  assert.deepEqual(narrow.map(({ boxes, ns }) => [boxes, ns]), [[1997, 1997]]);
  leaves.slice(1).forEach((leaf, i) => assert(Math.abs(leaf.x0 - leaves[i]!.x1) < 1e-9));
  assert(Math.abs(narrow[0]!.x1 - 1000) < 1e-6);
  // Zoomed: the box fills the width, what encloses it stands above.
  const zoomed = placeTree(leaves[1]!.box, 1000);
  assert.deepEqual(zoomed.placed.map(({ x0, x1, row, outer }) => [x0, x1, row, outer]), [[0, 1000, 0, true], [0, 1000, 1, true], [0, 1000, 2, false]]);
});

void test("the middle of a tree is where it divides, behind the frames that nearly all have in common", () => {
  const paths: [number, number][] = [[-1, 0], [0, 1], [1, 2], [2, 3], [2, 4], [1, 5]];
  const weights = [0, 0, 0, 60, 36, 4];
  const samples = weights.map((weight, path) => ({ time: path, path, weight })).filter(({ weight }) => weight > 0);
  const root = calleeTree(running(made(paths, samples), span(0, 1000)), Group.All);
  // all, f0, f1, f2: 96 of 100 are in f2, and 60 in f3.
  assert.equal(placeTree(root, 1000).middle, 3);
  const one = calleeTree(running(made(paths, samples.slice(0, 1)), span(0, 1000)), Group.All);
  assert.equal(placeTree(one, 1000).middle, 4, "of one path its end");
});

void test("a sandwich has callers above the function and callees below", () => {
  const { placed, rows } = placeSandwich(sandwich(running(made(PATHS, SAMPLES), span(0, 1000)), 1), 100);
  assert.equal(rows, 4);
  assert.deepEqual(placed.map(({ box, row }) => [box.fn, row]), [[1, 1], [2, 2], [1, 2], [2, 3], [0, 0]]);
});

void test("running pixels take the nearest sample of their run, also one outside of the view", () => {
  const paths = made([[-1, 0], [-1, 1], [-1, 2]], [{ time: 100, path: 0, weight: 1 }, { time: 200, path: 1, weight: 1 }, { time: 300, path: 2, weight: 1 }]);
  const colours = new CodeColours(paths, false);
  const rgb = stateColour(State.Running, false);
  const ink = (0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
  const runs = (t0: number, t1: number, blocked: number[] = [], begun = t0, until = t1): string => {
    const body = new Uint32Array(20).fill(ink);
    for (const x of blocked) body[x] = 0xff123456;
    return colourByFunction(body, { t0, t1, width: 20, length: 1000 }, paths, colours, 0, begun, until).map(({ x0, x1, fn }) => `${fn}:${x0}-${x1}`).join(" ");
  };
  // 10 ns a pixel: samples at 5, 15.
  assert.equal(runs(50, 250), "0:0-10 1:10-20");
  assert.equal(runs(50, 250, [8, 9]), "0:0-8 1:10-20");
  // Between two samples: each has its half where the run reaches to it, and nothing says what ran where it does not.
  assert.equal(runs(110, 190), "");
  assert.equal(runs(110, 190, [], 90, 210), "0:0-10 1:10-20");
  assert.equal(runs(110, 190, [], 90, 195), "0:0-20");
  assert.equal(runs(110, 190, [5], 90, 210), "0:0-5 1:6-20");
});

/** A comparison as text: function, share in A and in B in percent. */
function changes(box: Box): string {
  const inner = box.children().map(changes).sort().join(" ");
  const [a, b] = box.sides!.map(({ total }) => Math.round(100 * total)) as [number, number];
  return `${box.fn}:${a}>${b}${inner === "" ? "" : `(${inner})`}`;
}

void test("a comparison has each box's share on both sides, also of code that only one of them has", () => {
  // main calls work for 30 of 40 ns early, for 10 of 100 ns late; leaf comes late.
  const paths = made([[-1, 0], [0, 1], [0, 2]], [{ time: 10, path: 1, weight: 30 }, { time: 20, path: 0, weight: 10 }, { time: 110, path: 1, weight: 10 }, { time: 120, path: 2, weight: 90 }]);
  const [early, late] = [running(paths, span(0, 100)), running(paths, span(100, 200))];
  for (const tree of [calleeTree, callerTree]) {
    const root = compared([tree(early, Group.All), tree(late, Group.All)], [early.sum, late.sum]);
    assert.equal(changes(root), tree === calleeTree ? "-1:100>100(0:100>100(1:75>10 2:0>90))" : "-1:100>100(0:25>0 1:75>10(0:75>10) 2:0>90(0:0>90))");
    // Boxes are as wide as the mean of both shares, so those of one caller add up to it.
    const sum = root.children().reduce((all, child) => all + child.total, 0);
    assert(Math.abs(sum - root.total) < 1e-12, String(sum));
  }
  const leaf = compared([calleeTree(early, Group.All), calleeTree(late, Group.All)], [early.sum, late.sum]).children()[0]!.children().find(({ fn }) => fn === 2)!;
  assert.equal(Math.round(pointsOf(leaf.sides!)), 90);
  assert.equal(leaf.sides![0].box, undefined);
  assert.deepEqual(sharesByFunction(early, late, 3).sort((a, b) => a.fn - b.fn), [{ fn: 0, self: [0.25, 0], total: [1, 1] }, { fn: 1, self: [0.75, 0.1], total: [0.75, 0.1] }, { fn: 2, self: [0, 0.9], total: [0, 0.9] }]);
  // Nothing on one side: its shares are 0, not unknown.
  const none = running(paths, span(300, 400));
  assert.equal(changes(compared([calleeTree(none, Group.All), calleeTree(late, Group.All)], [none.sum, late.sum])), "-1:0>100(0:0>100(1:0>10 2:0>90))");
});

void test("two recordings have their functions in common by name, module and kind; a program may be another file", () => {
  const of = (functions: [string, string][]): CallPaths => {
    const paths = made(functions.map((_, fn): [number, number] => [fn - 1, fn]), []);
    return { ...paths, functions: functions.map(([name, module]) => ({ name, module, kind: CodeKind.Native })) };
  };
  const [a, b] = inCommon(of([["main", "/a/old"], ["init", "/lib/x.so"], ["init", "/lib/y.so"], ["read", "/lib/libc.so.6"]]), of([["read", "/usr/lib/libc.so.6"], ["main", "/b/new"], ["init", "/lib/z.so"], ["fresh", "/b/new"]]));
  assert.equal(a.functions, b.functions);
  const names = (paths: CallPaths): string[] => Array.from(paths.tree.fn, (fn) => `${fn} ${paths.functions[fn]!.name}`);
  assert.deepEqual(names(a), ["0 main", "1 init", "2 init", "3 read"]);
  // Which of the two old ones the third `init` would be is not known: it is new.
  assert.deepEqual(names(b), ["3 read", "0 main", "4 init", "5 fresh"]);
  assert.deepEqual([...b.frames.fn], [3, 0, 4, 5]);
});

void test("a CPU's pixels take the functions of the thread that had it", () => {
  const paths = made([[-1, 0], [-1, 1], [-1, 2]], [{ time: 100, path: 0, weight: 1 }, { time: 145, path: 1, weight: 1 }, { thread: 1, time: 115, path: 2, weight: 1 }], 3);
  const colours = new CodeColours(paths, false);
  // Thread 0, then 1, then 0 again, then 2, which has no sample, then nobody; 10 ns a pixel.
  const threads = Uint32Array.of(1, 1, 2, 2, 1, 1, 1, 3, 3, 0);
  const body = Uint32Array.from(threads, (thread) => (thread === 0 ? 0 : 0x80123456));
  const runs = colourCpuByFunction(body, threads, { t0: 90, t1: 190, width: 10, length: 1000 }, paths, colours);
  assert.deepEqual(runs.map(({ x0, x1, fn }) => `${fn}:${x0}-${x1}`), ["0:0-2", "2:2-4", "1:4-7"]);
  assert.deepEqual([body[7], body[9]], [0x80123456, 0], "without a sample a thread keeps its colour");
  assert.equal(body[2]! >>> 24, 0x80, "as opaque as before");
});

void test("the rest of the time is what no span covers", () => {
  assert.deepEqual(outside([[2, 4], [6, 10]], 10), [[0, 2], [4, 6]]);
  assert.deepEqual(outside([], 10), [[0, 10]]);
  assert.deepEqual(outside([[0, 10]], 10), []);
});

void test("spans that overlap are one", () => {
  assert.deepEqual(joined([[5, 9], [0, 2], [6, 7], [8, 12], [12, 13]]), [[0, 2], [5, 12], [12, 13]]);
});

void test("names are short without arguments, and stay names", () => {
  const cases = {
    "std::map<int, std::vector<float> >::find(int const&) const": "std::map::find",
    "main": "main",
    "map<int>::operator[](int const&)": "map::operator[]",
    "A::operator<<(std::ostream&)": "A::operator<<",
    "f(int) [clone .cold]": "f [clone .cold]",
    "{closure#0}::call(x)": "{closure#0}::call",
    "operator<(A const&, B const&)": "operator<",
    "ns::Vec<int>::operator()(int)": "ns::Vec::operator()",
    "(anonymous namespace)::run(int)": "(anonymous namespace)::run",
    "a::(anonymous namespace)::run(int)": "a::(anonymous namespace)::run",
    "<alloc::vec::Vec<T> as core::ops::Drop>::drop": "<alloc::vec::Vec as core::ops::Drop>::drop",
    "core::ptr::drop_in_place<alloc::string::String>": "core::ptr::drop_in_place",
    "libc.so.6+0x12f0": "libc.so.6+0x12f0",
    "unbalanced<(": "unbalanced<(",
    "": "",
  };
  for (const [name, short] of Object.entries(cases)) assert.equal(shortName(name), short, name);
});

void test("a million samples are added up to the ns", () => {
  const flame = new ManySamples(1_000_000);
  assert.equal(flame.addUp(), 1_000_000 * 1000);
});

void test("the call that waits: the outermost of kernel and C library, not the start of a thread, nothing where own code waits", () => {
  const fns: [string, string, number][] = [["start_thread", "/lib/libc.so.6", 0], ["worker", "/bin/app", 0], ["pthread_mutex_lock", "/lib/libc.so.6", 0], ["libc.so.6+0x12", "/lib/libc.so.6", 5], ["futex_wait", "", 2], ["start", "/lib/libcurl.so.4", 0]];
  // Paths by their frames, outermost first; each path's caller is the one before it.
  const call = (...of: number[]): string | undefined => {
    const paths = { functions: fns.map(([name, module, kind]) => ({ name, module, kind })), frames: { fn: Uint32Array.from(fns, (_, i) => i) }, frame: Uint32Array.from(of), caller: Int32Array.from(of, (_, i) => i - 1) };
    return waitingCall(paths as unknown as Parameters<typeof waitingCall>[0], of.length - 1);
  };
  assert.equal(call(0, 1, 2, 3, 4), "pthread_mutex_lock");
  assert.equal(call(0, 1, 2, 3), "pthread_mutex_lock");
  assert.equal(call(0, 1, 3, 4), "futex_wait", "a caller without a name");
  assert.equal(call(0, 1), undefined);
  assert.equal(call(0, 5), undefined, "no other library that begins alike");
  assert.equal(call(0), undefined);
});
