// Colours. What has a meaning of its own has a colour of its own, the same wherever it is drawn; names of slices and threads
// take theirs from a second, muted palette in three lightnesses. Waits are hatched as well.
import { encodeNamed, kindOf, nameOf } from "../data/value";
import { Kind, SliceKind, type Index } from "../data/index";

/** 0xRRGGBB. */
export type Rgb = number;

export interface Theme {
  dark: boolean;
  background: string;
  text: string;
  muted: string;
  grid: string;
  line: string;
  accent: string;
  /** Behind headings of rows, and behind bars. */
  head: string;
  bar: string;
  /** Flags of notes, and text on them. */
  note: string;
  onNote: string;
}

export const LIGHT: Theme = {
  dark: false,
  background: "#ffffff",
  text: "#1c2128",
  muted: "#5b6570",
  grid: "#e6e9ed",
  line: "#cfd5dc",
  accent: "#0b57d0",
  head: "#eef1f4",
  bar: "#f4f6f8",
  note: "#4d4030",
  onNote: "#ffffff",
};

export const DARK: Theme = {
  dark: true,
  background: "#14181d",
  text: "#e4e8ec",
  muted: "#98a3af",
  grid: "#242b33",
  line: "#343d47",
  accent: "#7ab4ff",
  head: "#20272f",
  bar: "#1a2027",
  note: "#f7f2cc",
  onNote: "#14181d",
};

/**
 * What a colour can mean on the page, in the light and in the dark theme. One colour has one meaning: a thread's state, a class
 * of the account and a kind of slice share a row only where they are the same thing seen from its sides (a thread that waits for
 * a lock; the CPU time that it costs). What is alike has one hue: greens work, blues wait for a CPU, violets lose it to others,
 * reds are locks, yellows wait for threads of the program, pinks for what lies outside; oranges are the program's compiled code. tests/unit/palette.test.ts holds the
 * distances, also as people with a colour-vision deficiency see them.
 */
export const MEANINGS = {
  running: [0x009e73, 0x179b72],
  systemCalls: [0x7fd1b9, 0xa5e3d0],
  taskRuntime: [0xcc79a7, 0xd88fb8],
  tracing: [0x0a7d99, 0x2c7486],
  interrupts: [0x6b4a2b, 0x84603f],
  lockWait: [0xd55e00, 0xe8701a],
  lockHold: [0x8c2d04, 0xb04a20],
  imbalance: [0xf0c02e, 0xf2c94c],
  ownThreads: [0x8f7500, 0xa8912f],
  io: [0xb0479f, 0xb9529f],
  external: [0xdcbfe3, 0xcfb0dc],
  otherWait: [0xd6c9ac, 0x6f6248],
  throttled: [0xc2185b, 0xe0457b],
  spinning: [0xb5651d, 0xc98a4b],
  woken: [0x56b4e9, 0x6cc3f5],
  preempted: [0x1c4fa3, 0x3a66c8],
  schedulingDelay: [0x9ad3f7, 0xb4e2fb],
  oversubscription: [0x452a80, 0x6a4cb0],
  interference: [0x8f7fd8, 0x9d8fe4],
  lowParallelism: [0xc9ccd1, 0x3d4751],
  other: [0x626b75, 0x8d97a1],
  unknown: [0x9aa3ad, 0x5a636e],
  sleeping: [0xe3e7ee, 0x2a323d],
  stopped: [0xb9c98a, 0x55652a],
  idle: [0xe3efdc, 0x1f2f22],
  exited: [0xf7ebe2, 0x30231e],
  codeNative: [0xfc9858, 0xec9830],
  codeInlined: [0xfcc48c, 0x844000],
  codeKernel: [0x1490dc, 0x0054a4],
  codeJit: [0xd0f884, 0x54c880],
  codeInterpreted: [0xe89cf8, 0xc074cc],
  muchLess: [0x3264f5, 0x0091ff],
  less: [0x7daaff, 0x415ab9],
  slightlyLess: [0xb9dcff, 0x283c64],
  slightlyMore: [0xffc8c3, 0x5f2d28],
  more: [0xf08796, 0xaa323c],
  muchMore: [0xd70a46, 0xf54b69],
  eventsLost: [0xd1001f, 0xff4d4d],
  note: [0x4d4030, 0xf7f2cc],
  wakeArrow: [0x24292f, 0xdfe6ee],
  flowArrow: [0x7b2fbf, 0xd7a8ff],
  createArrow: [0x00543f, 0xb6f05a],
  stealArrow: [0xa3123f, 0xff9d8f],
} as const satisfies Record<string, readonly [Rgb, Rgb]>;
export type Meaning = keyof typeof MEANINGS;

export function meaningColour(meaning: Meaning, dark: boolean): Rgb {
  return MEANINGS[meaning][dark ? 1 : 0];
}

/** In the order of the states' numbers. A thread in uninterruptible sleep waits for input or output. */
const STATES: Meaning[] = ["unknown", "running", "woken", "preempted", "sleeping", "io", "stopped", "idle", "exited"];

/** A state's colour by its number; a state of a later version is unknown. */
export function stateColour(state: number, dark: boolean): Rgb {
  return meaningColour(STATES[state] ?? "unknown", dark);
}

/**
 * Classes of the account by key, from the bottom of the stack to its top: what the program is for, then losses by kind. The
 * account's "work" is the part of "running" that is the program's own code.
 */
const CLASSES: [string, Meaning][] = [
  ["work", "running"],
  ["system_calls", "systemCalls"],
  ["task_runtime", "taskRuntime"],
  ["tracing", "tracing"],
  ["interrupts", "interrupts"],
  ["spinning", "spinning"],
  ["lock_wait", "lockWait"],
  ["load_imbalance", "imbalance"],
  ["waiting_for_own_threads", "ownThreads"],
  ["io_wait", "io"],
  ["external_wait", "external"],
  ["throttled_by_cpu_limit", "throttled"],
  ["oversubscription", "oversubscription"],
  ["interference", "interference"],
  ["scheduling_delay", "schedulingDelay"],
  ["low_parallelism", "lowParallelism"],
  ["other", "other"],
  ["unknown", "unknown"],
];

const BY_KEY = new Map(CLASSES.map(([key, meaning], rank) => [key, { rank, meaning }]));

/** Colour of the class with this key; undefined: this viewer does not know it. */
export function knownClassColour(key: string | undefined, dark: boolean): Rgb | undefined {
  const known = BY_KEY.get(key ?? "");
  return known && meaningColour(known.meaning, dark);
}

/** The same, grey where it is not known. */
export function classColour(key: string | undefined, dark: boolean): Rgb {
  return knownClassColour(key, dark) ?? 0x808080;
}

/** Numbers of the file's classes from the bottom of the stack to its top; those that this viewer does not know are topmost. */
export function classOrder(keys: string[]): number[] {
  const rank = (c: number): number => BY_KEY.get(keys[c]!)?.rank ?? CLASSES.length;
  return keys.map((_, c) => c).sort((a, b) => rank(a) - rank(b));
}

/** After Tol's muted palette, moved away from the meanings. */
const MUTED: Rgb[] = [0xc9907a, 0x44aa99, 0xddcc77, 0xcc6677, 0x6f74c4, 0x9c9a58, 0xb56ba8, 0x4e9a5b, 0xb07aa1, 0x7d9bc1];

/** FNV-1a: the same text has the same colour in every report. */
export function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  // FNV leaves the low bits of similar names similar, and the colour is chosen by them: so two more rounds of mixing.
  h ^= h >>> 15;
  h = Math.imul(h, 0x2c1b3c6d);
  return (h ^ (h >>> 12)) >>> 0;
}

/** `part` of the way from `a` to `b`. */
export function mix(a: Rgb, b: Rgb, part: number): Rgb {
  const channel = (shift: number): number => {
    const from = (a >> shift) & 255;
    return Math.round(from + (((b >> shift) & 255) - from) * part) << shift;
  };
  return channel(16) | channel(8) | channel(0);
}

/** Number of different colours for names. */
export const N_NAME_COLOURS = MUTED.length * 3;

/** Colour `n` of the names' colours. */
export function paletteColour(n: number, dark: boolean): Rgb {
  const base = MUTED[n % MUTED.length]!;
  const lightness = Math.floor(n / MUTED.length) % 3;
  const shade = lightness === 0 ? base : lightness === 1 ? mix(base, 0xffffff, 0.3) : mix(base, 0x000000, 0.2);
  return dark ? mix(shade, 0x000000, 0.1) : shade;
}

/** The colour that a name has by itself, in every report. */
export function nameColour(text: string, dark: boolean): Rgb {
  return paletteColour(hash(text) % N_NAME_COLOURS, dark);
}

/**
 * A colour for each of `names`, the most important first: its own where that is free and not a mere shade of one given
 * before, else the next such. So a name nearly always has the same colour in every report, and the names of one
 * report that fill most of the chart never look alike.
 */
export function assignColours(names: string[]): Map<string, number> {
  const given = new Map<string, number>();
  const bases = new Set<number>();
  const used = new Set<number>();
  for (const name of names) {
    const own = hash(name) % N_NAME_COLOURS;
    if (used.size === N_NAME_COLOURS) {
      given.set(name, own);
      continue;
    }
    // First a base colour that no name has yet; once all bases are taken, any shade that is free.
    const free = (n: number): boolean => !used.has(n) && (bases.size === MUTED.length || !bases.has(n % MUTED.length));
    let n = own;
    for (let step = 0; step < N_NAME_COLOURS && !free(n); step++) n = (n + 1) % N_NAME_COLOURS;
    given.set(name, n);
    used.add(n);
    bases.add(n % MUTED.length);
  }
  return given;
}

/** Kinds of slices that are coloured by what they are; the others by their name. */
const KINDS: Partial<Record<number, Meaning>> = {
  [SliceKind.Barrier]: "imbalance",
  [SliceKind.Join]: "imbalance",
  [SliceKind.Cond]: "ownThreads",
  [SliceKind.Io]: "io",
  [SliceKind.OtherWait]: "otherWait",
  [SliceKind.LockWait]: "lockWait",
  [SliceKind.LockHold]: "lockHold",
};

/** By number of `LATENESS`: a task of a plan that started before its time, or after it, as a share that is less or more. */
const LATE: Meaning[] = ["less", "running", "more", "muchMore"];

/** The colour of a planned task that was so late. */
export function latenessColour(lateness: number, dark: boolean): Rgb {
  return meaningColour(LATE[lateness] ?? "unknown", dark);
}

/** What a kind of slice means; undefined: its name says it. */
export function kindMeaning(kind: number): Meaning | undefined {
  return KINDS[kind];
}

/** Kinds that are waits: drawn hatched. */
export function isWait(kind: number): boolean {
  return kind >= SliceKind.Barrier && kind <= SliceKind.LockWait;
}

/** By `CodeKind`. Code without a name is not known, as a state is that was lost. */
const CODE: Meaning[] = ["codeNative", "codeInlined", "codeKernel", "codeJit", "codeInterpreted", "unknown"];

/** The colour of a kind of code; of a later version's, as of one that is not known. */
export function codeColour(kind: number, dark: boolean): Rgb {
  return meaningColour(CODE[kind] ?? "unknown", dark);
}

/** Least change of a share, in percentage points, that has the colours: of more, of less. */
const CHANGES: readonly [number, Meaning, Meaning][] = [
  [8, "muchMore", "muchLess"],
  [2, "more", "less"],
  [0.5, "slightlyMore", "slightlyLess"],
];

/** The colour of a change of a share, in percentage points; undefined: about the same. */
export function changeColour(points: number, dark: boolean): Rgb | undefined {
  const step = CHANGES.find(([least]) => Math.abs(points) >= least);
  return step && meaningColour(points > 0 ? step[1] : step[2], dark);
}

/** The changes that have a colour each, from most less to most more, in percentage points: the middle one has none. */
export const CHANGE_STEPS: readonly number[] = [...CHANGES.map(([least]) => -least), 0, ...CHANGES.map(([least]) => least).reverse()];

/** As CSS and canvases want it. */
export function css(rgb: Rgb): string {
  return `#${rgb.toString(16).padStart(6, "0")}`;
}

/** WCAG's relative luminance. */
function luminance(rgb: Rgb): number {
  const linear = (shift: number): number => {
    const c = ((rgb >> shift) & 255) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0);
}

const inksOn = new Map<Rgb, string>();

/** Black or white, whichever has more contrast on `rgb`: 4.5 at least, whatever the colour. Every label of a frame asks. */
export function onColour(rgb: Rgb): string {
  let ink = inksOn.get(rgb);
  if (ink === undefined) {
    const y = luminance(rgb) + 0.05;
    ink = y / 0.05 > 1.05 / y ? "#000000" : "#ffffff";
    inksOn.set(rgb, ink);
  }
  return ink;
}

/** Opaque 0xAABBGGRR of each value of one kind of line, worked out when first wanted: painting asks 100 000 times a frame. */
export class Inks {
  private readonly table: Uint32Array;

  constructor(
    private readonly rgb: (value: number) => Rgb,
    size: number,
  ) {
    this.table = new Uint32Array(Math.min(size, 1 << 21));
  }

  of(value: number): number {
    const known = this.table[value];
    if (known !== undefined && known !== 0) return known;
    const rgb = this.rgb(value);
    const ink = (0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
    if (value < this.table.length) this.table[value] = ink;
    return ink;
  }
}

/** Colours of everything in one recording, by kind and value; computed when first asked for. */
export class Colours {
  private readonly known = new Map<number, Rgb>();
  private readonly inksOf = new Map<Kind, Inks>();
  private readonly given: Map<string, number>;
  private readonly givenThreads: Map<string, number>;
  private readonly lateness: Map<number, number>;

  constructor(
    private readonly index: Index,
    readonly dark: boolean,
  ) {
    this.lateness = new Map(index.lateness);
    const work = index.names.filter((row) => KINDS[row.kind] === undefined && !this.lateness.has(row.name)).sort((a, b) => b.total - a.total);
    this.given = assignColours(work.map((row) => index.strings[row.name] ?? ""));
    const targets = index.threads.flatMap((thread, t) => (index.processes[thread.process]?.target ? [t] : []));
    this.givenThreads = assignColours(targets.map((t) => this.threadKey(t)));
  }

  /** The colours of a kind of line as pixels; a table as long as that kind has values. */
  inks(kind: Kind): Inks {
    let inks = this.inksOf.get(kind);
    if (!inks) {
      const byThread = kind === Kind.Cpu || kind === Kind.Lock;
      const size = kind === Kind.State || kind === Kind.Account ? 256 : byThread ? this.index.threads.length + 1 : encodeNamed(this.index.strings.length, 0);
      inks = new Inks((value) => this.of(kind, value), size);
      this.inksOf.set(kind, inks);
    }
    return inks;
  }

  /** The colour of a value of a kind of line. States and classes have fixed ones; the rest is remembered. */
  of(kind: Kind, value: number): Rgb {
    if (kind === Kind.State) return stateColour(value, this.dark);
    if (kind === Kind.Account) return classColour(this.index.account?.classes[value]?.[0], this.dark);
    const key = value * 16 + kind;
    let rgb = this.known.get(key);
    if (rgb === undefined) {
      rgb = this.make(kind, value);
      this.known.set(key, rgb);
    }
    return rgb;
  }

  /** Works a colour out: a thread's, a wait's by its kind, anything else's by its name. */
  private make(kind: Kind, value: number): Rgb {
    if (kind === Kind.Cpu || kind === Kind.Lock) return this.thread(value - 1);
    if (kind === Kind.Slice) {
      const meaning = KINDS[kindOf(value)];
      if (meaning) return meaningColour(meaning, this.dark);
      const late = this.lateness.get(nameOf(value));
      if (late !== undefined) return latenessColour(late, this.dark);
    }
    const text = this.index.strings[nameOf(value)] ?? "";
    return paletteColour(this.given.get(text) ?? hash(text) % N_NAME_COLOURS, this.dark);
  }

  /**
   * What a thread's colour is made from: its name, and its TID counted from its process's. Both are nearly always the same
   * in the next run, so a thread keeps its colour from report to report.
   */
  private threadKey(ix: number): string {
    const thread = this.index.threads[ix];
    if (!thread) return "";
    const pid = this.index.processes[thread.process]?.pid ?? 0;
    return `${this.index.strings[thread.name] ?? ""}/${thread.tid - pid}`;
  }

  /** Threads of the recorded program in full colour, all others pale: interference is seen at once. */
  thread(ix: number): Rgb {
    const thread = this.index.threads[ix];
    if (!thread) return this.dark ? 0x39424c : 0xd0d5db;
    const process = this.index.processes[thread.process];
    const key = this.threadKey(ix);
    const rgb = paletteColour(this.givenThreads.get(key) ?? hash(key) % N_NAME_COLOURS, this.dark);
    return process?.target ? rgb : mix(rgb, this.dark ? 0x3a4047 : 0xc9ced4, 0.72);
  }
}
