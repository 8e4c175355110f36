// Colours. States use the Okabe-Ito palette and slices Tol's muted one with three lightnesses: both stay apart for
// people with any of the common colour-vision deficiencies. Waits and locks are told apart by hatching as well.
import { encodeNamed, kindOf, nameOf } from "../data/value";
import { Kind, SliceKind, State, type Index } from "../data/index";

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
  note: "#8a5a00",
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
  note: "#f0c35a",
  onNote: "#14181d",
};

const STATES_LIGHT: Rgb[] = [0xd6dadf, 0x009e73, 0x56b4e9, 0xd55e00, 0xe3e7eb, 0xb6699a, 0xb3a12b, 0xeceff2, 0xf3f5f7];
const STATES_DARK: Rgb[] = [0x3a424b, 0x1fae85, 0x4fa8dc, 0xe8701a, 0x29313a, 0xc77daa, 0xc9b63f, 0x222931, 0x1c2228];

export function stateColour(state: number, dark: boolean): Rgb {
  return (dark ? STATES_DARK : STATES_LIGHT)[state] ?? STATES_LIGHT[State.Unknown]!;
}

/**
 * Classes of the account by key, from the bottom of the stack to its top: what the program is for, then losses by kind; in the light and
 * in the dark theme. Okabe-Ito and lighter kin: neighbours in the stack differ in lightness, so that they part without colour too.
 */
const CLASSES: [string, Rgb, Rgb][] = [
  ["work", 0x009e73, 0x1fae85],
  ["system_calls", 0x7fd1b9, 0x7fd1b9],
  ["task_runtime", 0xcc79a7, 0xd08bb2],
  ["tracing", 0x8c6bb1, 0x9a7cc0],
  ["interrupts", 0x5a3d7a, 0x7d5fa0],
  ["lock_wait", 0xd55e00, 0xe8701a],
  ["load_imbalance", 0xf0b429, 0xf0b429],
  ["waiting_for_own_threads", 0x8f6a00, 0xa98a2a],
  ["io_wait", 0x7a4988, 0x9a68aa],
  ["external_wait", 0xd9b8e0, 0xcfaad8],
  ["throttled_by_cpu_limit", 0xc2185b, 0xe0457b],
  ["oversubscription", 0x0a4f86, 0x2f7fc1],
  ["interference", 0x56b4e9, 0x6cc0f0],
  ["scheduling_delay", 0xb5d9ee, 0xa9cfe4],
  ["low_parallelism", 0xdfe3e8, 0x333c45],
  ["other", 0x6d7680, 0x5c6670],
  ["unknown", 0x9aa3ad, 0x7d8791],
];

const BY_KEY = new Map(CLASSES.map(([key, light, dark], rank) => [key, { rank, light, dark }]));

/** Colour of the class with this key; undefined: this viewer does not know it. */
export function knownClassColour(key: string | undefined, dark: boolean): Rgb | undefined {
  const known = BY_KEY.get(key ?? "");
  return known && (dark ? known.dark : known.light);
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

const MUTED: Rgb[] = [0x88ccee, 0x44aa99, 0xddcc77, 0xcc6677, 0x6f74c4, 0x999933, 0xb56ba8, 0x4e9a5b, 0xb07aa1, 0x7d9bc1];

/** FNV-1a: the same text has the same colour in every report. */
export function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h ^= h >>> 15;
  h = Math.imul(h, 0x2c1b3c6d);
  return (h ^ (h >>> 12)) >>> 0;
}

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
    const free = (n: number): boolean => !used.has(n) && (bases.size === MUTED.length || !bases.has(n % MUTED.length));
    let n = own;
    for (let step = 0; step < N_NAME_COLOURS && !free(n); step++) n = (n + 1) % N_NAME_COLOURS;
    given.set(name, n);
    used.add(n);
    bases.add(n % MUTED.length);
  }
  return given;
}

const WAITS: Partial<Record<number, [Rgb, Rgb]>> = {
  [SliceKind.Barrier]: [0xb9c0c8, 0x59636e],
  [SliceKind.Join]: [0xc3c0d0, 0x615c72],
  [SliceKind.Cond]: [0xbcc9c4, 0x586a63],
  [SliceKind.Io]: [0xd9b3cb, 0x7d5570],
  [SliceKind.OtherWait]: [0xcdc8c0, 0x69635a],
  [SliceKind.LockWait]: [0xe59866, 0xa9582a],
  [SliceKind.LockHold]: [0xe8b54a, 0xb5862a],
};

/** Kinds that are waits: drawn hatched. */
export function isWait(kind: number): boolean {
  return kind >= SliceKind.Barrier && kind <= SliceKind.LockWait;
}

export function css(rgb: Rgb): string {
  return `#${rgb.toString(16).padStart(6, "0")}`;
}

/** Black or white, whichever is read better on `rgb`. */
export function onColour(rgb: Rgb): string {
  const [r, g, b] = [(rgb >> 16) & 255, (rgb >> 8) & 255, rgb & 255];
  return 0.299 * r + 0.587 * g + 0.114 * b > 135 ? "#14181d" : "#ffffff";
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

  constructor(
    private readonly index: Index,
    readonly dark: boolean,
  ) {
    const work = index.names.filter((row) => WAITS[row.kind] === undefined).sort((a, b) => b.total - a.total);
    this.given = assignColours(work.map((row) => index.strings[row.name] ?? ""));
    const targets = index.threads.flatMap((thread, t) => (index.processes[thread.process]?.target ? [t] : []));
    this.givenThreads = assignColours(targets.map((t) => this.threadKey(t)));
  }

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

  private make(kind: Kind, value: number): Rgb {
    if (kind === Kind.Cpu || kind === Kind.Lock) return this.thread(value - 1);
    if (kind === Kind.Slice) {
      const wait = WAITS[kindOf(value)];
      if (wait) return wait[this.dark ? 1 : 0];
    }
    const text = this.index.strings[nameOf(value)] ?? "";
    return paletteColour(this.given.get(text) ?? hash(text) % N_NAME_COLOURS, this.dark);
  }

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
