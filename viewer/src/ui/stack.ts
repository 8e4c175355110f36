// Call paths in words: for the tooltip, the details of a state, and the flame graph.
import { CODE_KINDS, type CallPaths } from "../data/call-paths";
import { framesOf } from "../data/flame";
import type { Recording } from "../data/recording";
import { codeColour, css } from "../draw/palette";
import { shortName } from "../view/code-name";
import { h } from "./dom";
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
