// Call paths in words: for the tooltip, the details of a state, and the flame graph.
import { CODE_KINDS, type CallPaths, type CallPathTable } from "../data/call-paths";
import { chainAt, type Link } from "../data/chains";
import { cell, SliceColumn, StateColumn } from "../data/columns";
import { linesOf, stateDetails } from "../data/details";
import { addUp, framesOf, runningAt, waitAt, waitingCall, wakerAt } from "../data/flame";
import { Kind, SLICE_KINDS, SliceKind, State } from "../data/index";
import { itemAt, Patience, type Item } from "../data/query";
import type { Recording } from "../data/recording";
import { kindOf, nameOf } from "../data/value";
import { holders } from "../data/waits";
import { codeColour, css, isWait } from "../draw/palette";
import { shortName } from "../view/code-name";
import { itemThread, itemTitle, threadLabel } from "./describe";
import { h } from "./dom";
import type { ViewState } from "./state";
import { link, swatch } from "./widgets";

/** `file:line` of a row of the frames; "" where the file is not known. */
export function placeOf(recording: Recording, { frames }: CallPaths, frame: number): string {
  const file = recording.text(frames.file[frame] ?? -1);
  const line = frames.line[frame] ?? 0;
  return file === "" ? "" : line > 0 ? `${file}:${line}` : file;
}

/** The frames of a path, innermost first, at most `most` of them; the kernel's own come first. */
function stackLines(recording: Recording, paths: CallPaths, path: number, most: number, dark: boolean): HTMLElement[] {
  if (path < 0) return [h("div", { class: "muted" }, "no stack was captured here")];
  const frames = framesOf(paths, path);
  const lines = frames.slice(0, most).map((frame) => {
    const fn = paths.functions[paths.frames.fn[frame]!]!;
    const place = placeOf(recording, paths, frame);
    const note = place !== "" ? place.slice(place.lastIndexOf("/") + 1) : CODE_KINDS[fn.kind];
    return h("div", { class: "stack-line" }, swatch(css(codeColour(fn.kind, dark)), shortName(fn.name), "", note));
  });
  if (frames.length > most) lines.push(h("div", { class: "muted" }, `and ${frames.length - most} callers`));
  return lines;
}

/** Who woke a thread where no thread did. */
const BY_NONE = "an interrupt (a timer, a device, the network), or not known";

function muted(text: string): HTMLElement {
  return h("div", { class: "muted" }, text);
}

/** Leads to what a thread did at a time. */
export type Lead = (thread: number, t: number) => void;

/**
 * What is known about the code of a thread's state: where it ran near `t`; why and where it waited, what the lock's holder did meanwhile,
 * and what its waker did. At most `most` frames of each stack. With `lead`, threads are links to what they did then.
 */
export async function codeOf(state: ViewState, table: CallPathTable, item: Item, t: number, most: number, lead?: Lead): Promise<HTMLElement[]> {
  const onCpu = item.line.kind === Kind.Cpu;
  if (!onCpu && item.line.kind !== Kind.State) return [];
  const { recording, theme } = state;
  const paths = table.exists ? await table.read() : undefined;
  const thread = itemThread(item);
  const titled = (title: (string | HTMLElement)[], sample: number): HTMLElement[] => [h("div", { class: "stack-title" }, ...title), ...(paths && sample >= 0 ? stackLines(recording, paths, paths.samples.path[sample] ?? -1, most, theme.dark) : [])];
  const who = (thread: number, t: number): string | HTMLElement => (lead ? link(threadLabel(recording, thread), () => lead(thread, t)) : threadLabel(recording, thread));
  const wokenBy = (by: number, t: number): HTMLElement[] => {
    const sample = paths ? wakerAt(paths, by, t) : -1;
    return titled(["woken by ", who(by, t), ...(sample < 0 ? [] : [", in"])], sample);
  };
  if (onCpu || item.value === State.Running) {
    const names = onCpu && thread >= 0 ? await annotationsAt(recording, thread, t) : [];
    const told = names.length > 0 ? [h("div", {}, `in ${names.join(" \u203a ")}`)] : [];
    // Other programs' threads are seldom sampled: nothing is missing there.
    if (!paths || (onCpu && (paths.samples.first[thread] ?? 0) === (paths.samples.first[thread + 1] ?? 0))) return told;
    const sample = runningAt(paths, thread, t, item.start, item.end);
    return [...told, ...(sample < 0 ? [muted("no sample was taken in this run")] : titled(["ran"], sample))];
  }
  if (item.value === State.Woken || item.value === State.Preempted) {
    const by = cell(item.unit, StateColumn.By, item.i) - 1;
    if (item.value === State.Woken) return by < 0 ? [muted(BY_NONE)] : wokenBy(by, item.start);
    const sample = by < 0 || !paths ? -1 : runningAt(paths, by, item.start, item.start, item.end);
    return by < 0 ? [] : titled(["preempted by ", who(by, item.start), ...(sample < 0 ? [] : [", which ran"])], sample);
  }
  if (item.value !== State.Sleeping && item.value !== State.Disk && item.value !== State.Stopped) return [];
  const sample = paths ? waitAt(paths, thread, item.start, item.end) : -1;
  const reason = await reasonOf(recording, thread, item.start, item.end);
  const call = !reason && paths && sample >= 0 ? waitingCall(paths, paths.samples.path[sample]!) : undefined;
  const lines: HTMLElement[] = reason ? [h("div", {}, reason.text)] : call !== undefined ? [h("div", {}, `in the call ${shortName(call)}`)] : [];
  if (reason && reason.holder >= 0) {
    const path = paths ? topPath(paths, reason.holder, item.start, item.end) : -1;
    lines.push(h("div", { class: "stack-title" }, "held meanwhile by ", who(reason.holder, item.start), path < 0 ? "" : ", most in"));
    if (paths) lines.push(...(path >= 0 ? stackLines(recording, paths, path, most, theme.dark) : [muted("no sample shows what it did")]));
  }
  if (paths) lines.push(...(sample < 0 ? [muted("no sample shows where it waited")] : titled(["waited in"], sample)));
  const { next } = await stateDetails(recording, item);
  if (!next) return [...lines, muted("it did not end in this recording")];
  if (next.value !== State.Woken) return lines;
  const by = cell(next.unit, StateColumn.By, next.i) - 1;
  if (by < 0) return [...lines, muted(`woken by ${BY_NONE}`)];
  const chain = await chainAt(recording, item, t);
  return [...lines, ...chainLines(recording, paths, chain, call, t, who), ...wokenBy(by, item.end)];
}

/** What a wait waited for at `t`, a line for each thread: `\u2190 writer filter waits in read`. `call`: that of the wait. */
function chainLines(recording: Recording, paths: CallPaths | undefined, chain: Link[], call: string | undefined, t: number, who: (thread: number, t: number) => string | HTMLElement): HTMLElement[] {
  let before = call;
  const lines = chain.map((link): HTMLElement => {
    const role = ROLES.find(([calls]) => before !== undefined && calls.test(before))?.[1] ?? "";
    const [did, next] = didText(recording, paths, link, t);
    before = next;
    return h("div", { class: "stack-line chain" }, "\u2190 ", role, ...(link.thread >= 0 ? [who(link.thread, t), " "] : []), did);
  });
  return [h("div", { class: "stack-title" }, "waits at this instant for"), ...lines];
}

/** Who ends a wait in these calls. */
const ROLES: [RegExp, string][] = [
  [/^(__)?(libc_)?(p?read(v|64)?|recv(from|m?msg)?)$/, "writer "],
  [/^(__)?(libc_)?(p?write(v|64)?|send(to|m?msg)?)$/, "reader "],
];

/** What a thread of a chain does at `t` in words; and the call in which it waits, if it does and that is known. */
function didText(recording: Recording, paths: CallPaths | undefined, { thread, did, state }: Link, t: number): [string, string | undefined] {
  const sample = (find: (paths: CallPaths, state: Item) => number): number => (paths && state ? find(paths, state) : -1);
  const pathAt = (row: number): number => (row < 0 ? -1 : (paths!.samples.path[row] ?? -1));
  switch (did) {
    case "waited": {
      const path = pathAt(sample((paths, { start, end }) => waitAt(paths, thread, start, end)));
      const call = path < 0 ? undefined : waitingCall(paths!, path);
      return [call === undefined ? "waits" : `waits in ${shortName(call)}`, call];
    }
    case "ran": {
      const path = pathAt(sample((paths, { start, end }) => runningAt(paths, thread, t, start, end)));
      return [path < 0 ? "runs" : `runs ${innermost(paths!, path)}`, undefined];
    }
    case "ready":
      return ["is ready, and has no CPU", undefined];
    case "process": {
      const process = recording.index.processes[recording.index.threads[thread]!.process];
      return [`of another program, process ${process ? recording.text(process.name) : "?"}`, undefined];
    }
    case "unborn":
      return ["has not begun, or nothing is known of it", undefined];
    case "endless":
      return ["nobody: it did not end in this recording", undefined];
    case "nobody":
      return [BY_NONE, undefined];
  }
}

function innermost(paths: CallPaths, path: number): string {
  const [frame] = framesOf(paths, path);
  return frame === undefined ? "" : shortName(paths.functions[paths.frames.fn[frame]!]!.name);
}

/** The annotations that a thread was in at `t`, outermost first. */
async function annotationsAt(recording: Recording, thread: number, t: number): Promise<string[]> {
  const names: string[] = [];
  for (const line of linesOf(recording, Kind.Slice, thread).sort((a, b) => a.depth - b.depth)) {
    const slice = await itemAt(recording, line, t);
    if (slice) names.push(itemTitle(recording, slice));
  }
  return names;
}

/** Why a thread waited, as annotations and system calls say; `holder`: the thread that held the lock longest meanwhile, -1 none. */
async function reasonOf(recording: Recording, thread: number, t0: number, t1: number): Promise<{ text: string; holder: number } | undefined> {
  const middle = (t0 + t1) / 2;
  // The innermost wait that encloses it.
  for (const line of linesOf(recording, Kind.Slice, thread).sort((a, b) => b.depth - a.depth)) {
    const slice = await itemAt(recording, line, middle);
    if (!slice || !isWait(kindOf(slice.value))) continue;
    const kind = SLICE_KINDS[kindOf(slice.value)] ?? "wait";
    const name = recording.text(nameOf(slice.value));
    // The file stores 1 + the row.
    const object = recording.index.objects[cell(slice.unit, SliceColumn.Object, slice.i) - 1];
    const process = recording.index.threads[thread]?.process ?? -1;
    const isLock = kindOf(slice.value) === SliceKind.LockWait && object !== undefined;
    const [held] = isLock ? await holders(recording, object, process, t0, t1, new Patience()) : [];
    return { text: [kind, name].filter((part) => part !== "").join(": "), holder: held?.thread ?? -1 };
  }
  for (const line of linesOf(recording, Kind.Syscall, thread)) {
    const call = await itemAt(recording, line, middle);
    if (call) return { text: `in the system call ${recording.text(nameOf(call.value))}`, holder: -1 };
  }
  return undefined;
}

/** The path that a thread ran or waited in longest between two times; -1 none. */
function topPath(paths: CallPaths, thread: number, t0: number, t1: number): number {
  const { running, waiting } = addUp(paths, { threads: [thread], spans: () => [[t0, t1]] });
  let best = -1;
  let most = 0;
  for (let path = 0; path < running.length; path++) {
    const ns = running[path]! + waiting[path]!;
    if (ns > most) [best, most] = [path, ns];
  }
  return best;
}

/** Puts `text` where a person can paste it from. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page from a file may be refused the clipboard: the older way works from a click.
    const box = h("textarea", { "aria-hidden": "true" });
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}
