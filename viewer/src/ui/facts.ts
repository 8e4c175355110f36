// Facts about the recording, and JSON of any shape as tables.
import type { Index, Json } from "../data/index";
import { count, duration } from "../view/units";
import { h } from "./dom";
import { table, type Cell } from "./table";

export function infoTab(index: Index): HTMLElement {
  const { info } = index;
  const list = h("dl", { class: "facts-list wide" });
  const fact = (name: string, value: string | number | null): void => {
    if (value !== null && value !== "") list.append(h("dt", {}, name), h("dd", {}, String(value)));
  };
  fact("Command", info.command.join(" "));
  fact("Exit status", info.exit_status);
  fact("Length", duration(index.span[1] - index.span[0]));
  if (info.realtime_ns !== "") fact("Begun", new Date(Number(BigInt(info.realtime_ns) / 1_000_000n)).toISOString());
  fact("Host", info.host);
  fact("Kernel", `${info.kernel} ${info.machine}`.trim());
  fact("CPU", info.cpu_model === "" ? "" : `${info.cpu_model}, ${index.cpus.length} CPUs`);
  fact("Kernel events", `${count(info.kernel_events)}${info.kernel_source === "" ? "" : ` from ${info.kernel_source}, clock ${info.kernel_clock}`}`);
  fact("Annotation events", count(info.annotation_events));
  fact("Slices", count(info.slices));
  fact("Recorder", info.recorder);
  fact("Missing", info.missing.join("; "));
  return list;
}

/** `wall_ns` is a time, and so on: the summary's keys end with their unit. */
function scalar(key: string, value: Json): string {
  if (typeof value === "number") {
    if (key.endsWith("_ns")) return duration(value);
    return Number.isInteger(value) ? count(value) : String(Math.round(value * 1e4) / 1e4);
  }
  return plain(value);
}

function plain(value: Json): string {
  return value === null ? "-" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

function label(key: string): string {
  return key.replace(/_ns$/, "").replace(/_/g, " ");
}

/** Keys of the summary that the tab about the recording shows. */
const ELSEWHERE = new Set(["schema", "command", "host", "kernel", "machine", "cpu_model", "kernel_source", "kernel_clock", "recorder", "exit_status", "missing"]);

/** Rows of a table here; the exports have all. */
const MOST_ROWS = 30;

/** `shown`: keys that tabs of their own show. */
export function jsonTab(value: Json, shown = new Set<string>()): HTMLElement {
  const box = h("div", { class: "summary" });
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    box.append(plain(value));
    return box;
  }
  const list = h("dl", { class: "facts-list wide" });
  const tables: HTMLElement[] = [];
  const add = (key: string, part: Json, path: string): void => {
    if (Array.isArray(part) && part.some((row) => row !== null && typeof row === "object")) tables.push(arrayTable(path, part));
    else if (part !== null && typeof part === "object" && !Array.isArray(part)) for (const [inner, leaf] of Object.entries(part)) add(inner, leaf, `${path} ${inner}`);
    else if (!Array.isArray(part) || part.length > 0) list.append(h("dt", {}, label(path.replace(/_ns /, " "))), h("dd", {}, scalar(path.includes("_ns ") ? "x_ns" : key, Array.isArray(part) ? text(part) : part)));
  };
  for (const [key, part] of Object.entries(value)) if (!ELSEWHERE.has(key) && !shown.has(key)) add(key, part, key);
  box.append(list, h("div", { class: "columns tables" }, ...tables));
  return box;
}

/** A list inside a cell: tables within tables cannot be read. */
function text(values: Json[]): string {
  if (values.length === 0) return "-";
  return values.length > 8 || values.some((v) => v !== null && typeof v === "object") ? `${values.length} values` : values.map(String).join(", ");
}

/** `{a: {b: 1}}` as `{"a b": 1}`; arrays as text. */
function flat(value: Json, prefix = ""): Record<string, Json> {
  if (value === null || typeof value !== "object") return { [prefix]: value };
  if (Array.isArray(value)) return { [prefix]: text(value) };
  const leaves: Record<string, Json> = {};
  for (const [key, part] of Object.entries(value)) Object.assign(leaves, flat(part, prefix === "" ? key : `${prefix} ${key}`));
  return leaves;
}

function arrayTable(caption: string, values: Json[]): HTMLElement {
  const rows = values.slice(0, MOST_ROWS).map((value) => flat(value));
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  // Names first: the order of the keys says nothing.
  keys.sort((a, b) => Number(isNumber(a)) - Number(isNumber(b)));
  function isNumber(key: string): boolean {
    return rows.some((row) => typeof row[key] === "number");
  }
  return table({
    caption: values.length > MOST_ROWS ? `${label(caption)}, the first ${MOST_ROWS} of ${count(values.length)}` : label(caption),
    columns: keys.map((key) => ({ text: label(key.replace(/_ns /, " ")), number: isNumber(key) })),
    rows: rows.map((row) => keys.map((key): Cell => {
      const value = row[key] ?? null;
      const unitKey = key.includes("_ns") ? "x_ns" : key;
      return { value: typeof value === "number" ? value : plain(value), text: scalar(unitKey, value) };
    })),
  });
}
