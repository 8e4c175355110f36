// Which rows there are and where: a function of the recording's index and of what the person chose.
import { groupBy } from "../data/group";
import { Kind, State, type Index } from "../data/index";
import type { Line } from "../data/recording";

/** What a person chose about rows. Track ids are stable between reports of the same program where they can be. */
export interface Choices {
  /** Tracks and groups whose state differs from the default (targets open, others closed). */
  toggled: Set<string>;
  hidden: Set<string>;
  /** In the order of pinning. */
  pinned: string[];
  /** Only tracks whose name has this text; "" all. */
  filter: string;
  /** One thin row for each thread, CPU and lock; undefined: the person did not choose. */
  compact?: boolean;
  /** Name of the processes that are the program; undefined: the recording's word for it. */
  program?: string | undefined;
}

export type RowRole = "cpu" | "irq" | "state" | "slice" | "syscall" | "instant" | "counter" | "density" | "hold" | "wait" | "account";

/** One line on the screen. */
export interface Row {
  line: Line;
  role: RowRole;
  /** Below the track's top. */
  y: number;
  height: number;
}

export type TrackKind = "group" | "process" | "cpu" | "thread" | "counter" | "lock" | "account";

/** A named piece of the chart that is pinned or hidden as a whole: a CPU, a thread, a counter, a heading. */
export interface Track {
  id: string;
  kind: TrackKind;
  title: string;
  detail: string;
  y: number;
  height: number;
  rows: Row[];
  /** Groups and processes: whether their members show. */
  open?: boolean;
  /** Row in the index: CPU, thread, counter, lock or process. */
  ref: number;
  /** A closed process shows how many of these lines are running. */
  density?: Line[];
  pinned: boolean;
  indent: number;
  /** One thin row for all of it. */
  compact?: boolean;
}

export interface Layout {
  /** Pinned tracks; they do not scroll. Their `y` counts from the top of the chart. */
  pinned: Track[];
  pinnedHeight: number;
  /** The others; their `y` counts from the top of the scrolled area. */
  tracks: Track[];
  height: number;
  nHidden: number;
}

/** Ids of what there is once. */
const ACCOUNT_ID = "account";
const CPUS_ID = "cpus";
const OTHERS_ID = "others";
const SMALL_ID = "small";
const LOCKS_ID = "locks";

// Heights in CSS pixels: a heading, the space above and below a track's rows, the account, and a row of each role.
const HEAD = 26;
const PAD = 3;
const ACCOUNT = 70;
const ROW: Record<RowRole, number> = {
  cpu: 20,
  irq: 9,
  state: 11,
  slice: 19,
  syscall: 9,
  instant: 13,
  counter: 34,
  density: 16,
  hold: 17,
  wait: 9,
  account: 16,
};

/**
 * Heights of a compact track: as tall as lets all of them fit into the room, but not below `least`, where rows cannot be told
 * apart any more; then they have the `usual` height and scroll.
 */
export const COMPACT = { least: 6, usual: 10, most: 18, head: 16, account: 32, counter: 16 };
/** Processes of the program that had less than this share of its CPU time, and say nothing by annotations, fold into one heading. */
const SMALL = 0.01;
/** As long as they are more than a few. */
const FEW = 3;

/** Share of a compact thread that its states take, above its outermost slices. */
const STATE_SHARE = 0.4;

/** The lines of each CPU, thread, counter and lock, by its number in the index. */
interface Owned {
  cpu: Line[][];
  thread: Line[][];
  counter: Line[];
  lock: Line[][];
}

/** Sorts the lines by whose they are; worked out once, since it never changes. */
function owners(index: Index, lines: Line[]): Owned {
  const owned: Owned = { cpu: index.cpus.map(() => []), thread: index.threads.map(() => []), counter: [], lock: index.locks.map(() => []) };
  for (const line of lines) {
    if (line.kind === Kind.Counter) owned.counter[line.owner] = line;
    else if (line.kind === Kind.Lock) owned.lock[line.owner]?.push(line);
    else if (line.kind === Kind.Account) continue;
    else if (line.kind === Kind.Cpu || line.kind === Kind.Irq || line.kind === Kind.Softirq) owned.cpu[line.owner]?.push(line);
    else owned.thread[line.owner]?.push(line);
  }
  return owned;
}

const ROLES: Record<Kind, RowRole> = {
  [Kind.Cpu]: "cpu",
  [Kind.State]: "state",
  [Kind.Slice]: "slice",
  [Kind.Syscall]: "syscall",
  [Kind.Irq]: "irq",
  [Kind.Softirq]: "irq",
  [Kind.Instant]: "instant",
  [Kind.Counter]: "counter",
  [Kind.Lock]: "hold",
  [Kind.Account]: "account",
};
// From top to bottom within a track.
const ORDER: Kind[] = [Kind.Cpu, Kind.Irq, Kind.Softirq, Kind.State, Kind.Syscall, Kind.Instant, Kind.Slice, Kind.Counter, Kind.Lock];

/** The rows of one track, from top to bottom: scheduler, system calls, instants, then slices by depth. */
function rowsOf(lines: Line[], role = (line: Line): RowRole => ROLES[line.kind]): { rows: Row[]; height: number } {
  const sorted = [...lines].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || a.depth - b.depth);
  let y = PAD;
  const rows = sorted.map((line): Row => {
    const height = ROW[role(line)];
    const row = { line, role: role(line), y, height };
    y += height;
    return row;
  });
  return { rows, height: Math.max(y + PAD, HEAD) };
}

/**
 * The rows of a compact track of `height`: a thread's states and its outermost slices, a CPU's threads, a lock's first holder
 * and first waiter. A pixel below them parts tracks.
 */
function compactRows(track: Track, height: number): Row[] {
  const first = (role: RowRole): Row[] => track.rows.filter((row) => row.role === role).slice(0, 1);
  const [upper] = [...first("state"), ...first("hold")];
  const [lower] = [...first("slice"), ...first("wait"), ...first("cpu"), ...first("counter"), ...first("syscall"), ...first("instant")];
  const room = height - 1;
  const top = upper && lower ? Math.max(2, Math.round(room * STATE_SHARE)) : upper ? room : 0;
  const rows: Row[] = [];
  if (upper) rows.push({ ...upper, y: 0, height: top });
  if (lower) rows.push({ ...lower, y: top, height: room - top });
  return rows;
}

/** Where CPU time went, over time; drawn from all lines of the account, so it has no rows of its own. */
function accountTrack(): Track {
  return { id: ACCOUNT_ID, kind: "account", title: "Account", detail: "", y: 0, height: ACCOUNT, rows: [], ref: -1, pinned: false, indent: 0 };
}

/** Builds layouts of one recording; the parts that never change are worked out once. */
export class Arranger {
  private readonly owned: Owned;
  private readonly built = new Map<string, { rows: Row[]; height: number }>();

  constructor(
    private readonly index: Index,
    lines: Line[],
  ) {
    this.owned = owners(index, lines);
  }

  /** The layout for `choices`; `room` is the height that compact rows may fill, `compact` whether they are when nobody chose. */
  arrange(choices: Choices, room = Infinity, compact = false): Layout {
    const all = this.all(choices);
    // Pinned tracks keep the order in which they were pinned, and leave their place among the others.
    const pinnedIds = new Map(choices.pinned.map((id, i) => [id, i]));
    const pinned = all
      .filter((t) => pinnedIds.has(t.id))
      .sort((a, b) => pinnedIds.get(a.id)! - pinnedIds.get(b.id)!);
    const tracks = all.filter((t) => !pinnedIds.has(t.id) && this.shows(t, choices, all));
    let y = 0;
    for (const track of pinned) {
      track.pinned = true;
      track.indent = 0;
      track.y = y;
      y += track.height;
    }
    const pinnedHeight = y;
    if (choices.compact ?? compact) this.compact(tracks, room - pinnedHeight);
    y = 0;
    for (const track of tracks) {
      track.y = y;
      y += track.height;
    }
    return { pinned, pinnedHeight, tracks, height: y, nHidden: choices.hidden.size };
  }

  /** Makes `tracks` compact. Pinned ones stay as they are: so a single thread can be seen in full above all others. */
  private compact(tracks: Track[], room: number): void {
    const fixed: Partial<Record<TrackKind, number>> = { group: COMPACT.head, process: COMPACT.head, account: COMPACT.account, counter: COMPACT.counter };
    const thin = tracks.filter((track) => fixed[track.kind] === undefined);
    const taken = tracks.reduce((sum, track) => sum + (fixed[track.kind] ?? 0), 0);
    // Headings and the account keep their heights; the rest of the room is shared by all thin tracks.
    const fitting = Math.floor((room - taken) / Math.max(1, thin.length));
    const height = fitting < COMPACT.least ? COMPACT.usual : Math.min(fitting, COMPACT.most);
    for (const track of tracks) {
      track.compact = true;
      track.height = fixed[track.kind] ?? height;
      track.rows = compactRows(track, track.height);
    }
  }

  /** Whether a track passes what is hidden and filtered. A process shows when one of its threads does. */
  private shows(track: Track, choices: Choices, all: Track[]): boolean {
    if (choices.hidden.has(track.id)) return false;
    const filter = choices.filter.trim().toLowerCase();
    if (filter === "") return true;
    if (track.kind === "group") return false;
    const has = (t: Track): boolean => `${t.title} ${t.detail}`.toLowerCase().includes(filter);
    if (track.kind !== "process") return has(track);
    return has(track) || all.some((t) => t.kind === "thread" && this.index.threads[t.ref]?.process === track.ref && has(t));
  }

  private name(ix: number): string {
    return this.index.strings[ix] ?? "";
  }

  /** Every track that is not folded away, in the order of the screen; pinned and hidden ones too. */
  private all(choices: Choices): Track[] {
    // While a filter is set everything is open: what it looks for may be in a closed group.
    const filtered = choices.filter.trim() !== "";
    const open = (id: string, byDefault: boolean): boolean => filtered || choices.toggled.has(id) !== byDefault;
    const tracks: Track[] = [];
    // 1: the CPU was recorded. A CPU that was not, but has items, is shown and says so.
    const cpus = this.index.cpus.map((_, cpu) => cpu).filter((cpu) => this.index.cpus[cpu] === 1 || this.owned.cpu[cpu]!.length > 0);
    if (cpus.length > 0) {
      const isOpen = open(CPUS_ID, true);
      if (this.index.account) tracks.push(accountTrack());
      const group = this.group(CPUS_ID, "CPUs", `${cpus.length}`, isOpen);
      if (!isOpen) group.density = cpus.flatMap((cpu) => this.owned.cpu[cpu]!.filter((line) => line.kind === Kind.Cpu));
      tracks.push(group);
      if (isOpen) tracks.push(...cpus.map((cpu) => this.cpu(cpu)));
    }
    this.index.counters.forEach((counter, c) => {
      if (!this.index.processes[counter.process] && this.owned.counter[c]) tracks.push(this.counter(c));
    });
    const { targets, small, others } = this.grouped();
    for (const p of targets) this.process(tracks, p, true, open, choices);
    if (small.length > 0) {
      const isOpen = open(SMALL_ID, false);
      const group = this.group(SMALL_ID, `${small.length} small processes`, `each below ${100 * SMALL} % of the CPU time: ${this.namesOf(small)}`, isOpen);
      if (!isOpen) group.density = this.stateLines(small.flatMap((p) => this.threadsOf(p)));
      tracks.push(group);
      if (isOpen) for (const p of small) this.process(tracks, p, true, open, choices);
    }
    this.locks(tracks, open);
    if (others.length > 0) {
      const isOpen = open(OTHERS_ID, false);
      const threads = others.flatMap((p) => this.threadsOf(p));
      const group = this.group(OTHERS_ID, "Other processes", `${others.length}`, isOpen);
      if (!isOpen) group.density = this.stateLines(threads);
      tracks.push(group);
      if (isOpen) for (const p of others) this.process(tracks, p, false, open, choices);
    }
    return tracks;
  }

  /**
   * The processes, those with most CPU time first: the program's, those of it that fold into one heading, and all others. The first
   * of the program is the one that was started, and never folds.
   */
  private grouped(): { targets: number[]; small: number[]; others: number[] } {
    const { processes } = this.index;
    const { cpu, annotated, order } = this.used();
    const [program, others] = [true, false].map((target) => order.filter((p) => processes[p]!.target === target)) as [number[], number[]];
    const first = processes.findIndex(({ target }) => target);
    const total = program.reduce((sum, p) => sum + cpu[p]!, 0);
    const small = program.filter((p) => p !== first && cpu[p]! < SMALL * total && !annotated.has(p));
    if (small.length <= FEW) return { targets: program, small: [], others };
    const folded = new Set(small);
    return { targets: program.filter((p) => !folded.has(p)), small, others };
  }

  private cachedUse: { cpu: number[]; annotated: Set<number>; order: number[] } | undefined;
  /** CPU time of each process in ns, those that have annotations, and all by their CPU time. */
  private used(): { cpu: number[]; annotated: Set<number>; order: number[] } {
    if (this.cachedUse) return this.cachedUse;
    const { processes, threads, counters } = this.index;
    const cpu = processes.map((_, p) => this.threadsOf(p).reduce((sum, t) => sum + (threads[t]?.states[State.Running] ?? 0), 0));
    const says = (line: Line): boolean => line.kind === Kind.Slice || line.kind === Kind.Instant;
    const annotated = new Set(counters.map(({ process }) => process));
    processes.forEach((_, p) => this.threadsOf(p).some((t) => this.owned.thread[t]?.some(says)) && annotated.add(p));
    return (this.cachedUse = { cpu, annotated, order: [...cpu.keys()].sort((a, b) => cpu[b]! - cpu[a]! || a - b) });
  }

  /** The names of processes, the most frequent first, with how many have each. */
  private namesOf(processes: number[]): string {
    const names = [...groupBy(processes, (p) => this.name(this.index.processes[p]!.name) || "?")].sort(([, a], [, b]) => b.length - a.length);
    const shown = names.slice(0, 4).map(([name, same]) => (same.length > 1 ? `${same.length} ${name}` : name));
    return `${shown.join(", ")}${names.length > shown.length ? ", ..." : ""}`;
  }

  /** The locks, open where there are few: rows of locks must not push threads out of sight. */
  private locks(tracks: Track[], open: (id: string, byDefault: boolean) => boolean): void {
    const { locks, locks_without_row: without } = this.index;
    if (locks.length === 0) return;
    const isOpen = open(LOCKS_ID, locks.length <= 12);
    const detail = without > 0 ? `${locks.length} of ${locks.length + without}, those waited for longest` : `${locks.length}, longest waits first`;
    tracks.push(this.group(LOCKS_ID, "Locks", detail, isOpen));
    if (isOpen) locks.forEach((_, l) => tracks.push(this.lock(l)));
  }

  /** One lock's track: holders above, waiters below. */
  private lock(l: number): Track {
    const lock = this.index.locks[l]!;
    const id = this.lockId(l);
    const role = (line: Line): RowRole => (line.depth < lock.hold_lanes ? "hold" : "wait");
    const rest = { y: 0, ref: l, pinned: false, indent: 1 };
    return { id, kind: "lock", title: this.name(lock.name) || lock.object, detail: lock.object, ...this.rows(id, this.owned.lock[l]!, role), ...rest };
  }

  private group(id: string, title: string, detail: string, open: boolean): Track {
    return { id, kind: "group", title, detail, y: 0, height: HEAD, rows: [], open, ref: -1, pinned: false, indent: 0 };
  }

  /** A process's threads stand together in the index. */
  private threadsOf(p: number): number[] {
    const [first, last] = this.index.processes[p]!.threads;
    return Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  }

  private stateLines(threads: number[]): Line[] {
    return threads.flatMap((t) => (this.owned.thread[t] ?? []).filter((line) => line.kind === Kind.State));
  }

  /** Rows are laid out once: layouts are made with every click, and most tracks are as before. */
  private rows(id: string, lines: Line[], role?: (line: Line) => RowRole): { rows: Row[]; height: number } {
    let built = this.built.get(id);
    if (!built) {
      built = rowsOf(lines, role);
      this.built.set(id, built);
    }
    return built;
  }

  /** The id of a line's track. The one place where ids are made: others ask for them. */
  idOf(line: Line): string {
    switch (line.kind) {
      case Kind.Cpu:
      case Kind.Irq:
      case Kind.Softirq:
        return this.cpuId(line.owner);
      case Kind.Counter:
        return this.counterId(line.owner);
      case Kind.Lock:
        return this.lockId(line.owner);
      case Kind.Account:
        return ACCOUNT_ID;
      default:
        return this.threadId(line.owner);
    }
  }

  /** The ids of the groups and processes that must be open for a line's track to show, outermost first. */
  above(line: Line): string[] {
    switch (line.kind) {
      case Kind.Cpu:
      case Kind.Irq:
      case Kind.Softirq:
        return [CPUS_ID];
      case Kind.Lock:
        return [LOCKS_ID];
      case Kind.Account:
        return [];
    }
    const { counters, processes, threads } = this.index;
    const p = line.kind === Kind.Counter ? counters[line.owner]?.process : threads[line.owner]?.process;
    const process = processes[p ?? -1];
    if (p === undefined || !process) return [];
    const group = this.grouped().small.includes(p) ? [SMALL_ID] : process.target ? [] : [OTHERS_ID];
    return [...group, this.processId(p)];
  }

  /** The CPUs whose tracks are among `ids`. */
  cpusOf(ids: string[]): number[] {
    const wanted = new Set(ids);
    return this.index.cpus.flatMap((_, cpu) => (wanted.has(this.cpuId(cpu)) ? [cpu] : []));
  }

  private cpuId(cpu: number): string {
    return `cpu${cpu}`;
  }

  private counterId(c: number): string {
    return `c${c}`;
  }

  private processId(p: number): string {
    return `p${this.index.processes[p]?.pid ?? -1}${this.twin("p", p)}`;
  }

  private threadId(t: number): string {
    return `t${this.index.threads[t]?.tid ?? -1}${this.twin("t", t)}`;
  }

  /** Locks of the first process have their address alone; several of one address are told apart as processes and threads are. */
  private lockId(l: number): string {
    const lock = this.index.locks[l];
    if (!lock) return "l";
    const process = lock.process > 0 ? this.index.processes[lock.process] : undefined;
    const base = (ix: number): string => `${this.index.locks[ix]!.object} ${this.index.locks[ix]!.process}`;
    this.cachedLocks ??= groupBy(this.index.locks.keys(), base);
    const position = this.cachedLocks.get(base(l))!.indexOf(l);
    const owner = process ? `.${process.pid}${this.twin("p", lock.process)}` : "";
    return `l${lock.object}${owner}${position > 0 ? `~${position}` : ""}`;
  }

  private cachedLocks: Map<string, number[]> | undefined;

  private cpu(cpu: number): Track {
    const id = this.cpuId(cpu);
    const detail = this.index.cpus[cpu] ? "" : "not recorded";
    const rest = { y: 0, ref: cpu, pinned: false, indent: 1 };
    return { id, kind: "cpu", title: `CPU ${cpu}`, detail, ...this.rows(id, this.owned.cpu[cpu]!), ...rest };
  }

  /** A process's heading and, where it is open, its counters and threads. */
  private process(
    tracks: Track[],
    p: number,
    byDefault: boolean,
    open: (id: string, byDefault: boolean) => boolean,
    choices: Choices,
  ): void {
    const process = this.index.processes[p]!;
    const threads = this.threadsOf(p);
    const id = this.processId(p);
    const isOpen = open(id, byDefault);
    const head: Track = {
      id,
      kind: "process",
      title: this.name(process.name) || "?",
      detail: process.pid > 0 ? `pid ${process.pid}, ${threads.length} thread${threads.length === 1 ? "" : "s"}` : "",
      y: 0,
      height: HEAD,
      rows: [],
      open: isOpen,
      ref: p,
      pinned: false,
      indent: process.target ? 0 : 1,
    };
    if (!isOpen) head.density = this.stateLines(threads);
    tracks.push(head);
    if (choices.hidden.has(id) || !isOpen) return;
    this.index.counters.forEach((counter, c) => {
      if (counter.process === p && this.owned.counter[c]) tracks.push(this.counter(c));
    });
    for (const t of threads) {
      if (this.owned.thread[t]!.length > 0) tracks.push(this.thread(t));
    }
  }

  /** Tells apart two rows of the index with the same id of the kernel's. */
  private twin(kind: "p" | "t", ix: number): string {
    const same = kind === "p" ? this.pids() : this.tids();
    const id = kind === "p" ? this.index.processes[ix]?.pid : this.index.threads[ix]?.tid;
    const position = id === undefined ? 0 : same.get(id)!.indexOf(ix);
    return position > 0 ? `.${position}` : "";
  }

  private cachedPids: Map<number, number[]> | undefined;
  private pids(): Map<number, number[]> {
    return (this.cachedPids ??= groupBy(this.index.processes.keys(), (p) => this.index.processes[p]!.pid));
  }

  private cachedTids: Map<number, number[]> | undefined;
  private tids(): Map<number, number[]> {
    return (this.cachedTids ??= groupBy(this.index.threads.keys(), (t) => this.index.threads[t]!.tid));
  }

  private counter(c: number): Track {
    const id = this.counterId(c);
    const counter = this.index.counters[c]!;
    const rest = { y: 0, ref: c, pinned: false, indent: 1 };
    return { id, kind: "counter", title: this.name(counter.name), detail: "", ...this.rows(id, [this.owned.counter[c]!]), ...rest };
  }

  private thread(t: number): Track {
    const thread = this.index.threads[t]!;
    const id = this.threadId(t);
    const lines = this.owned.thread[t]!;
    const rest = { y: 0, ref: t, pinned: false, indent: 1 };
    return { id, kind: "thread", title: this.name(thread.name) || `thread ${thread.tid}`, detail: (this.index.processes[thread.process]?.pid ?? 1) > 0 ? `tid ${thread.tid}` : "", ...this.rows(id, lines), ...rest };
  }
}

/** The track and row at `y` of the chart, rows being scrolled by `scroll`. */
export function trackAt(layout: Layout, y: number, scroll: number): { track: Track; top: number } | undefined {
  const pinned = y < layout.pinnedHeight;
  const at = pinned ? y : y - layout.pinnedHeight + scroll;
  const tracks = pinned ? layout.pinned : layout.tracks;
  const track = tracks.find((t) => at >= t.y && at < t.y + t.height);
  return track && { track, top: pinned ? track.y : track.y + layout.pinnedHeight - scroll };
}

/** The row of `track` at `y` below its top. */
export function rowAt(track: Track, y: number): Row | undefined {
  return track.rows.find((row) => y >= row.y && y < row.y + row.height);
}
