// A flame graph of made-up samples: 64 threads, a tree of 100 000 paths, 30 deep.
import { CodeKind, treeOf, type CallPaths } from "../src/data/call-paths";
import { addUp, calleeTree, Group, Weights } from "../src/data/flame";
import { placeTree } from "../src/draw/flame";

const THREADS = 64;
const PATHS = 100_000;
const FUNCTIONS = 5000;

/** Samples of 1 us each, one after the other in each thread. */
function made(n: number): CallPaths {
  const per = n / THREADS;
  const floats = (of: (i: number) => number): Float64Array => Float64Array.from({ length: n }, (_, i) => of(i));
  const frame = Uint32Array.from({ length: PATHS }, (_, i) => (i * 7919) % FUNCTIONS);
  const caller = Int32Array.from({ length: PATHS }, (_, i) => (i === 0 ? -1 : i % 30 === 0 ? 0 : i - 1));
  const fn = Uint32Array.from({ length: FUNCTIONS }, (_, f) => f);
  return {
    functions: Array.from({ length: FUNCTIONS }, (_, f) => ({ name: `f${f}`, module: "", kind: CodeKind.Native })),
    frames: { fn, file: new Int32Array(FUNCTIONS).fill(-1), line: new Uint32Array(FUNCTIONS) },
    frame,
    caller,
    ...treeOf(frame, caller, fn),
    unsampled: { cells: 1, width: 1e12, running: new Float64Array(THREADS), waiting: new Float64Array(THREADS) },
    samples: {
      first: Uint32Array.from({ length: THREADS + 1 }, (_, t) => t * per),
      time: floats((i) => (i % per) * 1000),
      bits: new Uint8Array(n).fill(16),
      path: Int32Array.from({ length: n }, (_, i) => (i * 7919) % PATHS),
      weight: floats(() => 1000),
      begin: floats((i) => (i % per) * 1000),
      end: floats((i) => (i % per) * 1000),
    },
  };
}

/** What a new selection costs: from its samples to the boxes of the flame graph. */
export class ManySamples {
  private readonly paths: CallPaths;

  constructor(n: number) {
    this.paths = made(n);
  }

  /** Adds up all samples and places the boxes; gives the sum, ns. */
  addUp(): number {
    const threads = Array.from({ length: THREADS }, (_, t) => t);
    const times = addUp(this.paths, { threads, spans: () => [[0, 1e12]] });
    const weights = new Weights(this.paths, times.running, times.runningLost);
    placeTree(calleeTree(weights, Group.All), 1400);
    return weights.sum;
  }
}
