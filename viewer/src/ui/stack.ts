// Call paths in words: for the tooltip, the details of a state, and the flame graph.
import { CODE_KINDS, type CallPaths, type CallPathTable } from "../data/call-paths";
import { cell, StateColumn } from "../data/columns";
import { stateDetails } from "../data/details";
import { framesOf, runningAt, waitAt, wakerAt } from "../data/flame";
import { Kind, State } from "../data/index";
import type { Item } from "../data/query";
import type { Recording } from "../data/recording";
import { codeColour, css } from "../draw/palette";
import { shortName } from "../view/code-name";
import { itemThread, threadLabel } from "./describe";
import { h } from "./dom";
import type { ViewState } from "./state";
import { swatch } from "./widgets";

/** `file:line` of a row of the frames; "" where the file is not known. */
export function placeOf(recording: Recording, { frames }: CallPaths, frame: number): string {
  const file = recording.text(frames.file[frame] ?? -1);
  const line = frames.line[frame] ?? 0;
  return file === "" ? "" : line > 0 ? `${file}:${line}` : file;
}

/** The frames of a sample, innermost first, at most `most` of them; the kernel's own come first. */
export function stackLines(recording: Recording, paths: CallPaths, sample: number, most: number, dark: boolean): HTMLElement[] {
  const path = paths.samples.path[sample] ?? -1;
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

/**
 * What samples say about a thread's state: where it ran near `t`, where it waited, and what its waker did. Nothing for other items,
 * and of recordings without samples. At most `most` frames of each stack.
 */
export async function codeOf(state: ViewState, table: CallPathTable, item: Item, t: number, most: number): Promise<HTMLElement[]> {
  const onCpu = item.line.kind === Kind.Cpu;
  if (!table.exists || (!onCpu && item.line.kind !== Kind.State)) return [];
  const { recording, theme } = state;
  const paths = await table.read();
  const thread = itemThread(item);
  const titled = (title: string, sample: number): HTMLElement[] => [h("div", { class: "stack-title" }, title), ...stackLines(recording, paths, sample, most, theme.dark)];
  if (onCpu || item.value === State.Running) {
    // Other programs' threads are seldom sampled: nothing is missing there.
    if (onCpu && (paths.samples.first[thread] ?? 0) === (paths.samples.first[thread + 1] ?? 0)) return [];
    const sample = runningAt(paths, thread, t, item.start, item.end);
    return sample < 0 ? [h("div", { class: "muted" }, "no sample was taken in this run")] : titled("ran", sample);
  }
  if (item.value === State.Woken) {
    const by = cell(item.unit, StateColumn.By, item.i) - 1;
    return by < 0 ? [] : wokenBy(recording, paths, by, item.start, titled);
  }
  if (item.value !== State.Sleeping && item.value !== State.Disk && item.value !== State.Stopped) return [];
  const sample = waitAt(paths, thread, item.start, item.end);
  const lines = sample < 0 ? [h("div", { class: "muted" }, "no sample shows where it waited")] : titled("waited in", sample);
  const { next } = await stateDetails(recording, item);
  const by = next?.value === State.Woken ? cell(next.unit, StateColumn.By, next.i) - 1 : -1;
  return by < 0 ? lines : [...lines, ...wokenBy(recording, paths, by, item.end, titled)];
}

function wokenBy(recording: Recording, paths: CallPaths, by: number, t: number, titled: (title: string, sample: number) => HTMLElement[]): HTMLElement[] {
  const title = `woken by ${threadLabel(recording, by)}`;
  const sample = wakerAt(paths, by, t);
  return sample < 0 ? [h("div", { class: "stack-title" }, title)] : titled(`${title}, in`, sample);
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
