// The view as the fragment of the page's address, so that a link or a reload shows the same.

/** What a link keeps; a field that is absent is as it is in a page that was just opened. Times in ns on the file's axis. */
export interface Saved {
  t0?: number;
  t1?: number;
  /** Line and item. */
  selected?: [number, number];
  /** What running threads and the rows of CPUs have their colours of. */
  runningBy?: string;
  pinned?: string[];
  hidden?: string[];
  toggled?: string[];
  filter?: string;
  /** Whose rows stand first, in a trace that names no program. */
  program?: string;
  compact?: boolean;
  search?: string;
  /** Kinds of arrows that are shown for all. */
  arrows?: string[];
  scroll?: number;
  notes?: { t0: number; t1: number; text: string }[];
  /** Tracks of a marked area. */
  area?: { t0: number; t1: number; tracks: string[] };
}

const list = (text: string | null): string[] | undefined => (text ? text.split(",").filter((part) => part !== "") : undefined);

/** Two numbers with a separator; undefined for anything else. */
function numbers(text: string | null, separator: string): [number, number] | undefined {
  const parts = (text ?? "").split(separator).map(Number);
  return parts.length === 2 && parts.every(Number.isFinite) && text !== "" ? [parts[0]!, parts[1]!] : undefined;
}

/** `t0~t1~text`; the text may hold tildes of its own. */
function noteOf(text: string): { t0: number; t1: number; text: string } | undefined {
  const match = /^(\d+)~(\d+)~(.*)$/s.exec(text);
  return match ? { t0: Number(match[1]), t1: Number(match[2]), text: match[3]! } : undefined;
}

/** What a fragment (with or without `#`) says; parts that make no sense are left out. */
export function parse(fragment: string): Saved {
  const query = new URLSearchParams(fragment.replace(/^#/, ""));
  const saved: Saved = {};
  const range = numbers(query.get("t"), "~");
  if (range && range[0] < range[1]) [saved.t0, saved.t1] = range;
  const selected = numbers(query.get("sel"), ".");
  if (selected) saved.selected = selected;
  const pinned = list(query.get("pin"));
  if (pinned) saved.pinned = pinned;
  const hidden = list(query.get("hide"));
  if (hidden) saved.hidden = hidden;
  const toggled = list(query.get("open"));
  if (toggled) saved.toggled = toggled;
  const filter = query.get("rows");
  if (filter) saved.filter = filter;
  const program = query.get("program");
  if (program) saved.program = program;
  const compact = query.get("compact");
  if (compact === "0" || compact === "1") saved.compact = compact === "1";
  const by = query.get("by");
  if (by) saved.runningBy = by;
  const search = query.get("find");
  if (search) saved.search = search;
  const arrows = list(query.get("arrows"));
  if (arrows) saved.arrows = arrows;
  const notes = query.getAll("note").flatMap((text) => noteOf(text) ?? []);
  if (notes.length > 0) saved.notes = notes;
  const area = noteOf(query.get("area") ?? "");
  if (area) saved.area = { t0: area.t0, t1: area.t1, tracks: list(area.text) ?? [] };
  const scroll = Number(query.get("y") ?? NaN);
  if (Number.isFinite(scroll)) saved.scroll = scroll;
  return saved;
}

/** The fragment for `saved`; what is as it is at first is left out, so that addresses stay short. */
export function format(saved: Saved): string {
  const query = new URLSearchParams();
  if (saved.t0 !== undefined && saved.t1 !== undefined) query.set("t", `${Math.round(saved.t0)}~${Math.round(saved.t1)}`);
  if (saved.selected) query.set("sel", saved.selected.join("."));
  if (saved.pinned?.length) query.set("pin", saved.pinned.join(","));
  if (saved.hidden?.length) query.set("hide", saved.hidden.join(","));
  if (saved.toggled?.length) query.set("open", saved.toggled.join(","));
  if (saved.filter) query.set("rows", saved.filter);
  if (saved.program) query.set("program", saved.program);
  if (saved.compact !== undefined) query.set("compact", saved.compact ? "1" : "0");
  if (saved.runningBy) query.set("by", saved.runningBy);
  if (saved.search) query.set("find", saved.search);
  // No list is not an empty one: a recording of tasks begins with its steals.
  if (saved.arrows) query.set("arrows", saved.arrows.length > 0 ? saved.arrows.join(",") : "none");
  if (saved.scroll) query.set("y", String(Math.round(saved.scroll)));
  if (saved.area) query.set("area", `${Math.round(saved.area.t0)}~${Math.round(saved.area.t1)}~${saved.area.tracks.join(",")}`);
  for (const note of saved.notes ?? []) query.append("note", `${Math.round(note.t0)}~${Math.round(note.t1)}~${note.text}`);
  return query.toString();
}
