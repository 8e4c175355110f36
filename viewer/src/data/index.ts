// What the file says about itself before any item is read. Written by crates/report/src/index.rs.

/** The only version of the data that this viewer reads; it travels in the same file. */
export const FORMAT_VERSION = 10;

/** When a task started, against the plan, by number. */
export const LATENESS = ["early", "on time", "late", "very late"];

/** What a line shows; the numbers are part of the file format. */
export const Kind = { Cpu: 0, State: 1, Slice: 2, Syscall: 3, Irq: 4, Softirq: 5, Instant: 6, Counter: 7, Lock: 8, Account: 9 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/** Thread states in the order of the model's `ThreadState`. */
export const State = {
  Unknown: 0,
  Running: 1,
  Woken: 2,
  Preempted: 3,
  Sleeping: 4,
  Disk: 5,
  Stopped: 6,
  Idle: 7,
  Dead: 8,
} as const;
export const STATE_NAMES = [
  "unknown",
  "running",
  "ready (woken)",
  "ready (preempted)",
  "sleeping",
  "uninterruptible sleep",
  "stopped",
  "idle",
  "exited",
] as const;
export const N_STATES = STATE_NAMES.length;

/** A slice's kind, in the order of the model's `SliceKind`. */
export const SLICE_KINDS = [
  "work",
  "barrier wait",
  "join wait",
  "condition wait",
  "I/O wait",
  "wait",
  "lock wait",
  "lock hold",
  "task run",
] as const;
export const SliceKind = { Work: 0, Barrier: 1, Join: 2, Cond: 3, Io: 4, OtherWait: 5, LockWait: 6, LockHold: 7, TaskRun: 8 } as const;

/** Block, number in it, items, first instant, last instant. */
export type UnitRow = [number, number, number, number, number];

/** One row of items that do not overlap: a thread's states, its slices of one depth, one CPU's threads. */
export interface LineRow {
  kind: Kind;
  /** CPU number, thread, counter or lock, as `kind` says. */
  owner: number;
  depth: number;
  items: number;
  /** Buckets of the finest level; then block and number in it of each tile, coarse to fine (lod.ts). */
  lod?: number[];
  /** {@link UnitRow}s, one after the other. */
  units: number[];
}

/** `name` is a row of `strings`, `parent` of `processes`; `threads` are rows `[first, last)`. `target`: recorded program. */
export interface ProcessRow {
  pid: number;
  name: number;
  parent: number;
  target: boolean;
  threads: [number, number];
}

/** `alive`: first and last instant it was seen, ns on the file's axis. */
export interface ThreadRow {
  process: number;
  tid: number;
  name: number;
  alive: [number, number];
  preempted: number;
  switches: number;
  migrations: number;
  /** ns in each state. */
  states: number[];
}

/** Totals of the slices of one name and kind, in ns, worked out by the writer so that no item need be read for them. */
export interface NameRow {
  name: number;
  /** A name that slices of several kinds have, such as a lock's waits and holds, has a row for each. */
  kind: number;
  count: number;
  total: number;
  max: number;
  /** Where the longest is, and when it begins. */
  line: number;
  item: number;
  start: number;
  /** Bin (see histogram.ts) and count, ascending; absent for a single slice. */
  bins?: number[];
  /** Line, item, start and ns of the longest, longest first. */
  top?: number[];
}

/** A lock and its totals in ns. `object` is its address as text, `name` a row of `strings`. */
export interface LockRow {
  object: string;
  process: number;
  name: number;
  /** Lanes of holds; those of waits follow. */
  hold_lanes: number;
  holds: number;
  waits: number;
  hold_ns: number;
  wait_ns: number;
  /** Slices that found no free lane. */
  unshown: number;
}

/** How a number of a table is shown: "ratio" as percent, "factor" as a multiple. */
export type Unit = "text" | "id" | "count" | "ns" | "ratio" | "factor" | "number";
/** Where a cell leads to. */
export type Go = { thread: number } | { lock: string };
export type PanelCell = string | number | null | [string | number | null, Go];

/** A part of a document: exactly one of these. A refusal says why what it names is not known. */
export type PartRow =
  | { fact: [string, string] }
  | { refusal: [string, string] }
  | { table: { caption: string; columns: [string, string, Unit][]; rows: PanelCell[][] } }
  | { list: { caption: string; items: string[] } }
  | { chart: ChartRow }
  | { note: string };

/** A tab that an analysis filled. */
export interface PanelRow {
  title: string;
  parts: PartRow[];
}

export interface ChartRow {
  caption: string;
  x_title: string;
  y_title: string;
  series: { name: string; points: [number, number][]; band: [number, number][]; style: "line" | "dashed" | "dots" }[];
}

/** One thing that CPU time was charged to, as `kasuri stat` calls it. */
export interface CauseRow {
  class: number;
  text: string;
  /** Address of the lock; "" for none. */
  object: string;
  /** Row of the thread that was waited for; -1 for none. */
  thread: number;
}

export interface AccountRow {
  /** Key, label, meaning, whether it is what the program is for, whether a sample explains some of its time. */
  classes: [string, string, string, boolean, boolean][];
  causes: CauseRow[];
  buckets: number;
  /** Block of the mix, and number in it, of each line of the account. */
  mixes: [number, number][];
  /** By class, its largest waits and what these waited for, a line each: of the whole recording. */
  waits: [number, string[]][];
}

/** Where the code that threads ran and waited in is; `samples`: row of the thread, then a {@link UnitRow}. */
export interface CallPathsRow {
  n_frames: number;
  n_paths: number;
  n_samples: number;
  /** Equal parts of the time axis in the table of unsampled time. */
  cells: number;
  unsampled: UnitRow[];
  frames: UnitRow[];
  paths: UnitRow[];
  samples: [number, ...UnitRow][];
  /** The same of the code behind the account, by number of the CPU; none without an account. */
  pieces: [number, ...UnitRow][];
}

/** Events that are missing between two instants; CPU and thread are -1 where they do not matter. */
export interface LossRow {
  cause: string;
  cpu: number;
  thread: number;
  from: number;
  to: number;
  count: number;
  remedy: string;
}

export interface Info {
  command: string[];
  root_pid: number;
  exit_status: number | null;
  host: string;
  kernel: string;
  machine: string;
  cpu_model: string;
  kernel_source: string;
  kernel_clock: string;
  missing: string[];
  recorder: string;
  realtime_ns: string;
  kernel_events: number;
  annotation_events: number;
  slices: number;
}

/**
 * The part of `kasuri stat --json` that the page shows (docs/schema/stat-1.json). A writer may leave out what it does not know,
 * so every field may be missing.
 */
export interface Summary {
  known?: { switches: boolean };
  wall_ns?: number;
  n_cpus?: number;
  cpus_used?: number;
  cpu_use?: number | null;
  cpu_time?: { kernel_ns: number; seen_ns: number } | null;
  switches?: number;
  preemptions?: number;
  migrations?: number;
  wakeups?: number;
  wake_latency_ns?: { p50: number; p99: number; max: number } | null;
  n_kernel_events?: number;
  n_annotation_events?: number;
  account?: { capacity_ns: number; classes: { class: string; ns: number }[]; regions: { name: string; wall_ns: number; got_cpus: number }[] };
  hints?: { text: string; command: string | null }[];
  imbalance?: { name: string; threads: number; instances: number; imbalance: number; cost_ns: number; worst_tid: number | null; worst_thread: string }[];
  tasks?: { count: number; moved: number };
  tracing?: { cost_ns: number; share: number; recorder_cpu_ns: number };
  losses?: { count: number }[];
}

/** Processes of one name, which may be the program of a trace that names none. */
export interface CandidateRow {
  /** "" for none. */
  name: string;
  /** The first of them. */
  pids: number[];
  n_processes: number;
  /** null: not known. */
  on_cpu_ns: number | null;
  /** Makes a page of it alone. */
  command: string;
}

/** The whole index. Numbers of names, threads, processes and locks everywhere are rows of its lists. */
export interface Index {
  version: number;
  title: string;
  /** What tells it from the other recording of the page. */
  label: string;
  info: Info;
  /** ns from the recording's origin to the axis's 0. */
  base: number;
  /** ns. */
  length: number;
  span: [number, number];
  /** Its part without the time stamps that stand apart from all others; absent where none do. */
  without_stray?: [number, number];
  strings: string[];
  processes: ProcessRow[];
  threads: ThreadRow[];
  cpus: number[];
  counters: { name: number; process: number; min: number; max: number }[];
  lines: LineRow[];
  /** Tag, offset, characters, undeflated bytes of each block; empty when the page asks a server for them. */
  blocks: number[];
  names: NameRow[];
  /** Names of planned tasks, with a number of {@link LATENESS}. */
  lateness?: [number, number][];
  /** The busiest first; absent where the recording names its program. */
  candidates?: CandidateRow[];
  locks: LockRow[];
  locks_without_row: number;
  objects: string[];
  places: Record<string, string>;
  losses: LossRow[];
  tasks: UnitRow[];
  flows: UnitRow[];
  n_tasks: number;
  n_flows: number;
  /** The account in one sentence; "" without one. */
  headline?: string;
  summary: Summary | null;
  panels: PanelRow[];
  account: AccountRow | null;
  /** Absent without samples. */
  call_paths?: CallPathsRow;
}
