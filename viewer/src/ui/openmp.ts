// Regions and loops of OpenMP: the table of `kasuri stat --section openmp`, with what another schedule would save beside each.
import type { OpenMpLoop, OpenMpTimes, Summary } from "../data/index";
import { count, duration, percent } from "../view/units";
import { table, type Cell, type Column } from "./table";

/** Regions here; `kasuri stat --json` has all. */
const MOST_REGIONS = 30;
/** What saves less than this share is not worth a word: another run differs by more (crates/analyze/src/openmp/rows.rs has the same). */
const WORTH = 0.05;
/** The reason for which an even split is no bound (as there). */
const TOO_SHORT = "its chunks are too short to be measured";

const COLUMNS: Column[] = [
  { text: "region, and the loops in it", help: "by function and line; a loop with schedule(static) of gcc makes no call and has no row" },
  { text: "times", number: true, help: "executions" },
  { text: "threads", number: true, help: "most of one execution" },
  { text: "time", number: true, help: "sum over the executions, each from its first thread's start to its end" },
  { text: "work", number: true, help: "of all threads together; tasks that run while their thread waits are work" },
  { text: "at barriers", number: true, help: "of all threads together, without tasks that ran there" },
  { text: "uneven", number: true, help: "by how much the threads' mean work falls short of the busiest one's, between two barriers" },
  { text: "what would save time", help: "another schedule, replayed from the chunks; else the bound of an even split" },
];

/** None without a region. */
export function openmp({ openmp }: Summary): HTMLElement | false {
  if (!openmp || openmp.regions.length === 0) return false;
  const rows: Cell[][] = [];
  for (const region of openmp.regions.slice(0, MOST_REGIONS)) {
    const loops = openmp.loops.filter((loop) => loop.pid === region.pid && loop.region === region.name);
    rows.push(row(region, "", loops.length > 0 ? nothing : evenSplit(region)));
    for (const loop of loops) rows.push(row(loop, "\u2003", said(loop)));
  }
  const all = openmp.regions.length;
  const caption = all > MOST_REGIONS ? `OpenMP, the first ${MOST_REGIONS} of ${count(all)} regions` : "OpenMP";
  return table({ caption, columns: COLUMNS, rows });
}

const nothing: Cell = { value: 0, text: "" };
const time = (ns: number): Cell => ({ value: ns, text: duration(ns) });

function row(of: OpenMpTimes, indent: string, saves: Cell): Cell[] {
  const file = of.place?.split("/").pop();
  const place = file === undefined || of.name.endsWith(file) ? "" : ` (${file.replace(/:\d+$/, "")})`;
  return [{ value: of.name, text: `${indent}${of.name}${place}` }, of.count, of.threads, time(of.wall_ns), time(of.work_ns), time(of.barrier_ns), { value: of.imbalance, text: percent(of.imbalance, 1) }, saves];
}

function evenSplit(of: OpenMpTimes): Cell {
  if (of.imbalance <= WORTH) return nothing;
  return { value: of.even_saves_ns, text: `an even split would save at most ${duration(of.even_saves_ns)} of ${duration(of.busiest_ns)}` };
}

function said(loop: OpenMpLoop): Cell {
  const [best] = loop.schedules;
  if (best && best.saves_ns > WORTH * (best.wall_ns + best.saves_ns)) return { value: best.saves_ns, text: `${best.schedule} would save ${duration(best.saves_ns)} of ${duration(best.wall_ns + best.saves_ns)}` };
  if (loop.imbalance <= WORTH) return nothing;
  if (loop.refused === TOO_SHORT) return { value: 0, text: `longer chunks, or static: ${loop.refused}` };
  if (loop.refused === null) return { value: 0, text: "no other schedule that was replayed" };
  const even = evenSplit(loop) as { value: number; text: string };
  return { value: even.value, text: `${even.text}; which schedule does is not known: ${loop.refused}` };
}
