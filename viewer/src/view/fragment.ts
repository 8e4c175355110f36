// The view as the fragment of the page's address, so that a link or a reload shows the same.

export interface Saved {
  t0?: number;
  t1?: number;
  /** Line and item. */
  selected?: [number, number];
  pinned?: string[];
  hidden?: string[];
  toggled?: string[];
  filter?: string;
  search?: string;
  arrows?: boolean;
  scroll?: number;
}

const list = (text: string | null): string[] | undefined => (text ? text.split(",").filter((part) => part !== "") : undefined);

function numbers(text: string | null, separator: string): [number, number] | undefined {
  const parts = (text ?? "").split(separator).map(Number);
  return parts.length === 2 && parts.every(Number.isFinite) && text !== "" ? [parts[0]!, parts[1]!] : undefined;
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
  const search = query.get("find");
  if (search) saved.search = search;
  if (query.get("arrows") === "1") saved.arrows = true;
  const scroll = Number(query.get("y") ?? NaN);
  if (Number.isFinite(scroll)) saved.scroll = scroll;
  return saved;
}

export function format(saved: Saved): string {
  const query = new URLSearchParams();
  if (saved.t0 !== undefined && saved.t1 !== undefined) query.set("t", `${Math.round(saved.t0)}~${Math.round(saved.t1)}`);
  if (saved.selected) query.set("sel", saved.selected.join("."));
  if (saved.pinned?.length) query.set("pin", saved.pinned.join(","));
  if (saved.hidden?.length) query.set("hide", saved.hidden.join(","));
  if (saved.toggled?.length) query.set("open", saved.toggled.join(","));
  if (saved.filter) query.set("rows", saved.filter);
  if (saved.search) query.set("find", saved.search);
  if (saved.arrows) query.set("arrows", "1");
  if (saved.scroll) query.set("y", String(Math.round(saved.scroll)));
  return query.toString();
}
