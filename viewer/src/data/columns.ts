// Byte planes back to items. The layout is that of crates/report/src/columns.rs.
import { encodeNamed, kindOf } from "./value";
import { Kind } from "./index";

/** Items of one unit; times in ns on the file's axis. */
export interface Unit {
  /** Number of items; every column has as many values. */
  n: number;
  start: Float64Array;
  end: Float64Array;
  /** What colours the item: thread + 1, state, or name * 16 + kind. */
  value: Uint32Array;
  /** The columns that are only read for single items, see {@link cell}. */
  bytes: Uint8Array;
  /** Where each column begins in `bytes`, in the order of the constants below. */
  columns: number[];
  /** Where the arguments begin in `bytes`; slices only. */
  args: number;
}

/** Columns after start and length, for each kind. */
const COLUMNS: Record<Kind, number> = {
  [Kind.Cpu]: 1,
  [Kind.State]: 3,
  [Kind.Slice]: 4,
  [Kind.Syscall]: 2,
  [Kind.Irq]: 2,
  [Kind.Softirq]: 2,
  [Kind.Instant]: 1,
  [Kind.Counter]: 1,
  [Kind.Lock]: 1,
  [Kind.Account]: 2,
};

/** Which of a unit's `columns` holds what. */
export const StateColumn = { State: 0, Cpu: 1, By: 2 } as const;
export const SliceColumn = { Name: 0, KindOpen: 1, Task: 2, Object: 3 } as const;
export const SpanColumn = { Name: 0, Thread: 1 } as const;
export const CounterColumn = { Value: 0 } as const;

/** Where part `part` of a block begins: a block begins with a table of it. */
export function partAt(block: Uint8Array, part: number): number {
  return littleEndian(block, 4 * part, 4);
}

/** Bytes that a column of `n` items takes, with its head. */
export function columnBytes(bytes: Uint8Array, at: number, n: number): number {
  const width = bytes[at] ?? 0;
  return width === 0 ? 9 : 1 + width * n;
}

// Sums instead of shifts: JavaScript shifts 32-bit numbers, and times have more bits.
function littleEndian(bytes: Uint8Array, at: number, width: number): number {
  let value = 0;
  for (let i = width - 1; i >= 0; i--) value = value * 256 + (bytes[at + i] ?? 0);
  return value;
}

/** All of a column as numbers; exact to 2^53. */
export function numbers(bytes: Uint8Array, at: number, n: number): Float64Array {
  const out = new Float64Array(n);
  const width = bytes[at] ?? 0;
  if (width === 0) return out.fill(littleEndian(bytes, at + 1, 8));
  // Plane by plane: each is a run of bytes, one for each item (the head of crates/report/src/columns.rs has an example).
  let scale = 1;
  for (let plane = 0; plane < width; plane++, scale *= 256) {
    const from = at + 1 + plane * n;
    for (let i = 0; i < n; i++) out[i]! += bytes[from + i]! * scale;
  }
  return out;
}

/** All of a column as 32-bit numbers. */
export function words(bytes: Uint8Array, at: number, n: number): Uint32Array {
  const out = new Uint32Array(n);
  const width = bytes[at] ?? 0;
  if (width === 0) return out.fill(littleEndian(bytes, at + 1, 4));
  for (let plane = 0; plane < Math.min(width, 4); plane++) {
    const from = at + 1 + plane * n;
    const shift = 8 * plane;
    for (let i = 0; i < n; i++) out[i]! |= bytes[from + i]! << shift;
  }
  return out;
}

/** One value of a column of `n`. */
export function cellAt(bytes: Uint8Array, at: number, n: number, i: number): number {
  const width = bytes[at] ?? 0;
  if (width === 0) return littleEndian(bytes, at + 1, 8);
  let value = 0;
  for (let plane = width - 1; plane >= 0; plane--) value = value * 256 + (bytes[at + 1 + plane * n + i] ?? 0);
  return value;
}

/** One value of a column of `n` as the 64 bits it was stored as. */
export function cellBits(bytes: Uint8Array, at: number, n: number, i: number): bigint {
  const width = bytes[at] ?? 0;
  let value = 0n;
  for (let b = (width || 8) - 1; b >= 0; b--) {
    const byte = width === 0 ? bytes[at + 1 + b] : bytes[at + 1 + b * n + i];
    value = (value << 8n) | BigInt(byte ?? 0);
  }
  return value;
}

/** Value `i` of column `column` of `unit`. */
export function cell(unit: Unit, column: number, i: number): number {
  return cellAt(unit.bytes, unit.columns[column] ?? 0, unit.n, i);
}

/** Value `i` of a column of floating-point numbers. */
export function float(unit: Unit, column: number, i: number): number {
  return bitsToFloat(cellBits(unit.bytes, unit.columns[column] ?? 0, unit.n, i));
}

export function bitsToFloat(bits: bigint): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, bits);
  return view.getFloat64(0);
}

/** Decodes the unit that begins at `offset` of an inflated block. */
export function decodeUnit(kind: Kind, block: Uint8Array, offset: number): Unit {
  const n = littleEndian(block, offset, 4);
  const first = littleEndian(block, offset + 4, 8);
  let at = offset + 12;
  // The first two columns of every kind: the gap since the end of the item before, and the item's length, in ns.
  const gapAt = at;
  at += columnBytes(block, at, n);
  const lengthAt = at;
  at += columnBytes(block, at, n);
  const start = numbers(block, gapAt, n);
  const end = numbers(block, lengthAt, n);
  // Both columns become times in place: start of the item, then its end, which the next gap counts from.
  let now = first;
  for (let i = 0; i < n; i++) {
    now += start[i]!;
    start[i] = now;
    now += end[i]!;
    end[i] = now;
  }
  const columns: number[] = [];
  for (let c = 0; c < COLUMNS[kind]; c++) {
    columns.push(at);
    at += columnBytes(block, at, n);
  }
  if (at > block.length) throw new Error(`a unit ends at byte ${at} of a block of ${block.length}`);
  return { n, start, end, value: values(kind, block, columns, n), bytes: block, columns, args: at };
}

/** The values that colour the items. A name is joined with the slice's kind, as data/value.ts says. */
function values(kind: Kind, block: Uint8Array, columns: number[], n: number): Uint32Array {
  if (kind === Kind.Counter) return new Uint32Array(n);
  const value = words(block, columns[0]!, n);
  if (kind === Kind.Cpu || kind === Kind.State || kind === Kind.Lock || kind === Kind.Account) return value;
  if (kind !== Kind.Slice) return value.map((name) => encodeNamed(name, 0));
  const kinds = words(block, columns[SliceColumn.KindOpen]!, n);
  for (let i = 0; i < n; i++) value[i] = encodeNamed(value[i]!, kindOf(kinds[i]!));
  return value;
}

/** One argument of a slice. */
export interface Argument {
  name: number;
  /** A number, or for text its place in the index's strings. */
  value: number | bigint | { text: number };
}

/** The arguments of slice `i` of `unit`. */
export function argumentsOf(unit: Unit, i: number): Argument[] {
  const { bytes } = unit;
  const n = littleEndian(bytes, unit.args, 4);
  if (n === 0) return [];
  const at: number[] = [];
  for (let c = 0, next = unit.args + 4; c < 4; c++) {
    at.push(next);
    next += columnBytes(bytes, next, n);
  }
  // Arguments of all slices of the unit stand in one table; its columns are slice, name, type, and the value's 64 bits.
  const item = words(bytes, at[0]!, n);
  const found: Argument[] = [];
  for (let a = 0; a < n; a++) {
    if (item[a] !== i) continue;
    const bits = cellBits(bytes, at[3]!, n, a);
    found.push({ name: cellAt(bytes, at[1]!, n, a), value: argument(cellAt(bytes, at[2]!, n, a), bits) });
  }
  return found;
}

/** Types as in crates/model: 0 signed, 1 unsigned, 2 floating point, else text. */
function argument(type: number, bits: bigint): Argument["value"] {
  if (type === 0) return BigInt.asIntN(64, bits);
  if (type === 1) return bits;
  return type === 2 ? bitsToFloat(bits) : { text: Number(bits) };
}
