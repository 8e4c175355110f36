// Two flame graphs as one: what takes a larger or a smaller part of the time in B than in A.
//
// Shares are compared and not times: two ranges, two sets of threads and two runs are seldom of one length. A box is as wide as the mean of
// its two shares, so that code of only one side is there too, and boxes of one caller still add up to it.
import { baseName, type CallPaths, type CodeFunction } from "./call-paths";
import { box, byFunction, type Box, type Side, type Weights } from "./flame";

type Both<T> = readonly [T, T];

/** The box of `a` and `b`, trees of the same kind whose functions have the same numbers; `sums`: ns of all that is shown on each side. */
export function compared(pair: Both<Box | undefined>, sums: Both<number>, parent?: Box): Box {
  const side = (i: 0 | 1): Side => {
    const share = (ns = 0): number => (sums[i] > 0 ? ns / sums[i] : 0);
    return { box: pair[i], total: share(pair[i]?.total), self: share(pair[i]?.self) };
  };
  const [a, b] = [side(0), side(1)];
  const fn = (pair[1] ?? pair[0])!.fn;
  return box({ fn, total: (a.total + b.total) / 2, self: (a.self + b.self) / 2, parent, nodes: [], weights: undefined, sides: [a, b] }, (self) => {
    const children = new Map<number, [Box | undefined, Box | undefined]>();
    for (const child of pair[0]?.children() ?? []) children.set(child.fn, [child, undefined]);
    for (const child of pair[1]?.children() ?? []) {
      const met = children.get(child.fn);
      if (met) met[1] = child;
      else children.set(child.fn, [undefined, child]);
    }
    return [...children.values()].map((pair) => compared(pair, sums, self));
  });
}

/** Percentage points that a box has more in B than in A. */
export function pointsOf([a, b]: readonly [Side, Side]): number {
  return 100 * (b.total - a.total);
}

/** A row of the table of functions: shares in A and in B. */
export interface FunctionShares {
  fn: number;
  self: Both<number>;
  total: Both<number>;
}

/** Functions of either side, whose numbers are the same on both. */
export function sharesByFunction(a: Weights, b: Weights, functions: number): FunctionShares[] {
  const rows = new Map<number, { fn: number; self: [number, number]; total: [number, number] }>();
  [a, b].forEach((weights, side) => {
    for (const { fn, self, total } of byFunction(weights, functions)) {
      const row = rows.get(fn) ?? { fn, self: [0, 0], total: [0, 0] };
      row.self[side] = self / weights.sum;
      row.total[side] = total / weights.sum;
      rows.set(fn, row);
    }
  });
  return [...rows.values()];
}

/**
 * The call paths of two recordings with one list of functions: functions of one name, module and kind of code are the same. A module
 * counts without its folders; where none is of the same name (the program was built as another file, a library has another
 * version), the only function of that name and kind is.
 */
export function inCommon(a: CallPaths, b: CallPaths): [CallPaths, CallPaths] {
  const functions: CodeFunction[] = [];
  const known = new Map<string, number>();
  const exact = ({ name, module, kind }: CodeFunction): string => `${kind} ${baseName(module)} ${name}`;
  const number = (fn: CodeFunction): number => {
    const key = exact(fn);
    const at = known.get(key) ?? functions.push(fn) - 1;
    known.set(key, at);
    return at;
  };
  const ofA = Uint32Array.from(a.functions, number);
  const only = byName(a.functions);
  const onlyB = byName(b.functions);
  const ofB = Uint32Array.from(b.functions, (fn) => {
    const key = loose(fn);
    const other = known.has(exact(fn)) || onlyB.get(key) === undefined ? undefined : only.get(key);
    return other === undefined ? number(fn) : ofA[other]!;
  });
  return [renumbered(a, functions, ofA), renumbered(b, functions, ofB)];
}

function loose({ name, kind }: CodeFunction): string {
  return `${kind} ${name}`;
}

/** Rows of the functions by name and kind; undefined for those of which there are several. */
function byName(functions: readonly CodeFunction[]): Map<string, number | undefined> {
  const rows = new Map<string, number | undefined>();
  functions.forEach((fn, at) => rows.set(loose(fn), rows.has(loose(fn)) ? undefined : at));
  return rows;
}

/** `paths` with another list of functions; `of`: the new row of each. */
function renumbered(paths: CallPaths, functions: CodeFunction[], of: Uint32Array): CallPaths {
  const moved = (rows: Uint32Array): Uint32Array => rows.map((fn) => of[fn]!);
  return { ...paths, functions, frames: { ...paths.frames, fn: moved(paths.frames.fn) }, tree: { ...paths.tree, fn: moved(paths.tree.fn) } };
}
