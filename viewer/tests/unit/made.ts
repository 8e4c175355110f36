// Encoders for tests: the writer is in Rust, so this is the format's second implementation.
import { FORMAT_VERSION, Kind, type Index } from "../../src/data/index";
import { Recording } from "../../src/data/recording";
import type { Packed } from "../../src/data/source";
import { deflateRawSync } from "node:zlib";

export interface Made {
  start: number;
  end: number;
  name: number;
  kind: number;
  open?: number;
}

export const bytes = (values: number[]): Uint8Array => Uint8Array.from(values);
export const u32 = (value: number): number[] => [0, 1, 2, 3].map((b) => Math.floor(value / 256 ** b) % 256);
export const u64 = (value: number): number[] => Array.from({ length: 8 }, (_, b) => Math.floor(value / 256 ** b) % 256);

export function column(values: number[]): number[] {
  const first = values[0] ?? 0;
  if (values.every((value) => value === first)) return [0, ...u64(first)];
  const width = Math.max(1, Math.ceil(Math.log2(Math.max(...values) + 1) / 8));
  return [width, ...Array.from({ length: width }, (_, plane) => values.map((value) => Math.floor(value / 256 ** plane) % 256)).flat()];
}

function times(made: { start: number; end: number }[]): number[] {
  const gaps = made.map((item, i) => item.start - (made[i - 1]?.end ?? item.start));
  return [...u32(made.length), ...u64(made[0]?.start ?? 0), ...column(gaps), ...column(made.map((item) => item.end - item.start))];
}

export function sliceUnit(made: Made[]): number[] {
  const kinds = made.map((item) => item.kind | ((item.open ?? 0) << 4));
  const none = made.map(() => 0);
  return [...times(made), ...column(made.map((item) => item.name)), ...column(kinds), ...column(none), ...column(none), ...u32(0)];
}

/** A block of one part, as a file holds it. */
export function blockOf(part: number[]): Packed {
  const raw = bytes([...u32(4), ...part]);
  return { text: deflateRawSync(raw).toString("base64"), raw: raw.length };
}

/** A recording of slice lines, one thread each, in units of `perUnit` items. */
export function recordingOf(strings: string[], lines: Made[][], perUnit = 4): Recording {
  const blocks: Packed[] = [];
  const rows = lines.map((items, owner) => {
    const units: number[] = [];
    for (let at = 0; at < items.length; at += perUnit) {
      const part = items.slice(at, at + perUnit);
      units.push(blocks.length, 0, part.length, part[0]!.start, part.at(-1)!.end);
      blocks.push(blockOf(sliceUnit(part)));
    }
    return { kind: Kind.Slice, owner, depth: 0, items: items.length, units };
  });
  const all = lines.flat();
  const names = strings.map((_, name) => {
    const of = all.filter((item) => item.name === name);
    return { name, kind: 0, count: of.length, total: of.reduce((sum, item) => sum + item.end - item.start, 0), max: 0, line: 0, item: 0, start: 0 };
  });
  const length = Math.max(...all.map((item) => item.end));
  const index: Index = {
    version: FORMAT_VERSION,
    title: "made",
    label: "",
    info: { command: [], root_pid: 0, exit_status: null, host: "", kernel: "", machine: "", cpu_model: "", kernel_source: "", kernel_clock: "", missing: [], recorder: "", realtime_ns: "", kernel_events: 0, annotation_events: 0, slices: all.length },
    base: 0,
    length,
    span: [0, length],
    strings,
    processes: [{ pid: 1, name: 0, parent: -1, target: true, threads: [0, lines.length] }],
    threads: lines.map((_, t) => ({ process: 0, tid: 10 + t, name: 0, alive: [0, length], preempted: 0, switches: 0, migrations: 0, states: [] })),
    cpus: [1, 1],
    counters: [],
    lines: rows,
    blocks: [],
    names: names.filter((row) => row.count > 0),
    locks: [],
    locks_without_row: 0,
    objects: [],
    places: {},
    losses: [],
    tasks: [],
    flows: [],
    n_tasks: 0,
    n_flows: 0,
    summary: null,
    panels: [],
    account: null,
  };
  return new Recording(index, (b) => Promise.resolve(blocks[b]!));
}

export interface MadeState {
  start: number;
  end: number;
  state: number;
  /** Row of the thread that woke or preempted it; -1 none. */
  by?: number;
}

/** A recording of the states of threads, each of a process of its own; `programs` are those that were recorded. */
export function recordingOfStates(threads: MadeState[][], programs = threads.map(() => true)): Recording {
  const made = recordingOf(["t"], threads.map((states) => states.map(({ start, end }) => ({ start, end, name: 0, kind: 0 }))));
  const blocks = threads.map((states) =>
    blockOf([...times(states), ...column(states.map(({ state }) => state)), ...column(states.map(() => 0)), ...column(states.map(({ by }) => (by ?? -1) + 1))]),
  );
  const { index } = made;
  index.lines = threads.map((states, owner) => ({ kind: Kind.State, owner, depth: 0, items: states.length, units: [owner, 0, states.length, states[0]!.start, states.at(-1)!.end] }));
  index.processes = programs.map((target, p) => ({ pid: 1 + p, name: 0, parent: -1, target, threads: [p, p + 1] as [number, number] }));
  index.threads.forEach((thread, t) => (thread.process = t));
  return new Recording(index, (b) => Promise.resolve(blocks[b]!));
}
