// Whose time a flame graph adds up: what is selected, what is in view, all slices of a name, or everything; of threads, or of a class of the account.
import type { LossQuery } from "../data/pieces";
import type { CodeQuery } from "../data/flame";
import { Kind } from "../data/index";
import { scan, type Patience } from "../data/query";
import type { Recording } from "../data/recording";
import { encodeNamed, kindOf, nameOf } from "../data/value";
import { count, duration } from "../view/units";
import { itemThread, itemTitle, threadLabel } from "./describe";
import type { ViewState } from "./state";
import { chosenCpus, inView } from "./subject";

/** What a person chose: a time, and threads (a row of the index, or all that the time's owner has). */
export interface CodeChoice {
  time: "selected" | "view" | "name" | "everything";
  threads: "usual" | "all" | number;
  /** Number of a class of the account: CPU time of that class, by the code that explains it, whosever it is; undefined: all time of threads. */
  loss?: number | undefined;
}

export interface CodeSubject {
  query: CodeQuery;
  /** As in "what ... ran". */
  text: string;
  /** ns that the spans cover, of one thread. */
  ns: number;
  /** CPU time of a class instead of time of threads. */
  loss?: LossQuery;
}

type Span = [number, number];

/** Threads of the recorded program, sampled or not: what was not sampled is to be said; all with samples where there is no program. */
export function usualThreads({ index }: Recording): number[] {
  const own = index.threads.flatMap((thread, t) => (index.processes[thread.process]?.target ? [t] : []));
  return own.length > 0 ? own : sampledThreads(index.call_paths?.samples ?? []);
}

/** Threads with samples, in the order of the index. */
export function sampledThreads(units: readonly (readonly number[])[]): number[] {
  return [...new Set(units.map(([thread]) => thread!))];
}

/** The threads of the rows that an area covers: of a closed process all of its threads. */
function threadsOfArea({ area, layout, recording, arranger }: ViewState): number[] {
  const { index, lines } = recording;
  const ids = new Set(area?.tracks);
  const found = new Set<number>();
  for (const line of lines) {
    if ((line.kind === Kind.State || line.kind === Kind.Slice) && ids.has(arranger.idOf(line))) found.add(line.owner);
  }
  for (const track of layout.tracks) {
    if (track.kind !== "process" || track.open !== false || !ids.has(track.id)) continue;
    const [first, last] = index.processes[track.ref]!.threads;
    for (let t = first; t < last; t++) found.add(t);
  }
  return [...found].sort((a, b) => a - b);
}

/** The time and the threads that are asked for before a person narrows them. */
function chosen(state: ViewState, { time }: CodeChoice): { span: Span; threads: number[] | undefined; text: string } {
  const { area, selected, recording } = state;
  const everything: Span = [0, recording.length];
  if (time === "view") {
    const [from, to, text] = inView(state);
    return { span: [from, to], threads: undefined, text };
  }
  if (time === "everything" || (!area && !selected)) return { span: everything, threads: undefined, text: "the whole recording" };
  if (area) {
    const threads = threadsOfArea(state);
    return { span: [area.t0, area.t1], threads: threads.length > 0 ? threads : undefined, text: "the marked area" };
  }
  const thread = itemThread(selected!);
  const point = selected!.end <= selected!.start;
  return { span: point ? everything : [selected!.start, selected!.end], threads: thread >= 0 ? [thread] : undefined, text: point ? "this thread" : `"${itemTitle(recording, selected!)}"` };
}

/** What is asked for now; undefined when cancelled. `name` is the value of the slices whose time is asked for by name, the selected one's. */
export async function codeSubject(state: ViewState, choice: CodeChoice, patience: Patience, name = selectedName(state)): Promise<CodeSubject | undefined> {
  const { recording } = state;
  const { index } = recording;
  const of = (threads: number[] | undefined): number[] => {
    if (typeof choice.threads === "number") return [choice.threads];
    if (choice.threads === "all") return sampledThreads(index.call_paths?.samples ?? []);
    return threads ?? usualThreads(recording);
  };
  if (choice.loss !== undefined) return lossSubject(state, choice, choice.loss, patience, name);
  const who = (threads: number[]): string => (threads.length === 1 ? threadLabel(recording, threads[0]!) : `${count(threads.length)} threads`);
  if (choice.time === "name" && name !== undefined) {
    const spans = await spansOf(recording, name, patience);
    if (!spans) return undefined;
    const threads = of([...spans.keys()].sort((a, b) => a - b));
    const ns = [...spans.values()].flat().reduce((sum, [t0, t1]) => sum + t1 - t0, 0);
    return { query: { threads, spans: (thread) => spans.get(thread) ?? [] }, text: name < 0 ? "no slice of this name" : `all "${recording.text(nameOf(name))}" in ${who(threads)}`, ns };
  }
  const { span, threads, text } = chosen(state, choice);
  const list = of(threads);
  const spans = [span];
  return { query: { threads: list, spans: () => spans }, text: `${text}, ${duration(span[1] - span[0])}, ${who(list)}`, ns: span[1] - span[0] };
}

/** CPU time of a class: of the CPUs and the time that the account would be of. */
async function lossSubject(state: ViewState, choice: CodeChoice, loss: number, patience: Patience, name: number | undefined): Promise<CodeSubject | undefined> {
  const { recording } = state;
  const label = recording.index.account?.classes[loss]?.[1] ?? "?";
  const of = (text: string, spans: readonly Span[], cpus: ReadonlySet<number> | undefined): CodeSubject => {
    const ns = spans.reduce((sum, [t0, t1]) => sum + t1 - t0, 0);
    const where = cpus ? `CPU ${[...cpus].join(", ")}` : "all CPUs";
    return { query: { threads: [], spans: () => spans }, text: `${label}: ${text}, ${duration(ns)} on ${where}`, ns, loss: { loss, cpus, spans } };
  };
  if (choice.time === "name" && name !== undefined) {
    const spans = await spansOf(recording, name, patience);
    return spans && of(name < 0 ? "no slice of this name" : `while a "${recording.text(nameOf(name))}" was open`, joined([...spans.values()].flat()), undefined);
  }
  const { span, text } = chosen(state, choice);
  return of(text, [span], choice.time === "selected" ? chosenCpus(state) : undefined);
}

/** The value of the selected slice: its name and kind. */
export function selectedName({ selected }: ViewState): number | undefined {
  return selected?.line.kind === Kind.Slice ? selected.value : undefined;
}

/** The value of the slices of `recording` that have the name and kind that `value` has in `of`; -1, which none has: there are none. */
export function sameName(recording: Recording, of: Recording, value: number): number {
  const row = recording.index.names.find(({ name, kind }) => kind === kindOf(value) && recording.text(name) === of.text(nameOf(value)));
  return row ? encodeNamed(row.name, row.kind) : -1;
}

/** The same threads at all other times. */
export function restOf({ query, loss }: CodeSubject, { length }: Recording): CodeSubject {
  if (loss) {
    const spans = outside(loss.spans, length);
    const ns = spans.reduce((sum, [t0, t1]) => sum + t1 - t0, 0);
    return { query, text: `the rest of the time, ${duration(ns)}`, ns, loss: { ...loss, spans } };
  }
  const spans = (thread: number): Span[] => outside(query.spans(thread), length);
  const ns = Math.max(0, ...query.threads.map((thread) => spans(thread).reduce((sum, [t0, t1]) => sum + t1 - t0, 0)));
  return { query: { threads: query.threads, spans }, text: `the rest of the time, ${duration(ns)}`, ns };
}

/** The program's other threads, at the same times. */
export function othersOf({ query, ns }: CodeSubject, recording: Recording): CodeSubject {
  const own = new Set(query.threads);
  const threads = usualThreads(recording).filter((thread) => !own.has(thread));
  const spans = joined(query.threads.flatMap((thread) => query.spans(thread).map(([t0, t1]): Span => [t0, t1])));
  return { query: { threads, spans: () => spans }, text: `the other threads (${count(threads.length)}) at the same time`, ns };
}

/** What of `[0, length]` no span covers; spans in order, without overlaps. */
export function outside(spans: readonly (readonly [number, number])[], length: number): Span[] {
  const found: Span[] = [];
  let from = 0;
  for (const [t0, t1] of spans) {
    if (t0 > from) found.push([from, t0]);
    from = Math.max(from, t1);
  }
  if (from < length) found.push([from, length]);
  return found;
}

/** When slices of `value` were open, by thread; a slice inside another of its name counts once. */
async function spansOf(recording: Recording, value: number, patience: Patience): Promise<Map<number, Span[]> | undefined> {
  const found = new Map<number, Span[]>();
  for (const line of recording.lines) {
    if (line.kind !== Kind.Slice) continue;
    const spans = found.get(line.owner) ?? [];
    const go = await scan(recording, line, 0, recording.length, (unit, i0, i1) => {
      for (let i = i0; i < i1; i++) if (unit.value[i] === value) spans.push([unit.start[i]!, unit.end[i]!]);
    }, patience);
    if (!go) return undefined;
    if (spans.length > 0) found.set(line.owner, spans);
  }
  for (const [thread, spans] of found) found.set(thread, joined(spans));
  return found;
}

/** Spans in order, those that overlap as one. */
export function joined(spans: Span[]): Span[] {
  const sorted = [...spans].sort((a, b) => a[0] - b[0]);
  const found: Span[] = [];
  for (const [t0, t1] of sorted) {
    const last = found.at(-1);
    if (last && t0 < last[1]) last[1] = Math.max(last[1], t1);
    else found.push([t0, t1]);
  }
  return found;
}
