// Bars that say which events were lost, and what was not recorded.
import type { LossRow } from "../data/index";
import type { Recording } from "../data/recording";
import { count } from "../view/units";
import { append, h } from "./dom";
import type { Navigation } from "./navigation";
import { button, link } from "./widgets";

/** `name` is what screen readers call the bars. */
export function banners(recording: Recording, navigation: Navigation, name: string): HTMLElement {
  const { losses, info } = recording.index;
  const box = h("section", { class: "banners", "aria-label": name });
  const banner = (kind: string, ...children: (Node | string)[]): void => {
    const close = button("Close this note", "\u2715", () => note.remove());
    const note = h("div", { class: `banner ${kind}`, role: "note" }, h("div", { class: "text" }, ...children), close);
    box.append(note);
  };
  if (losses.length > 0) {
    const known = losses.reduce((sum, loss) => sum + loss.count, 0);
    const list = h("details", {}, h("summary", {}, `${known > 0 ? count(known) : "Some"} events were lost; the hatched parts of the chart are incomplete`));
    append(list, [h("ul", {}, ...losses.slice(0, 50).map((loss) => lossItem(recording, navigation, loss)))]);
    if (losses.length > 50) list.append(`and ${losses.length - 50} more`);
    banner("lost", list);
  }
  if (info.missing.length > 0) {
    const [first, ...more] = info.missing;
    if (more.length === 0) banner("missing", `Not in this recording: ${first ?? ""}`);
    else banner("missing", h("details", {}, h("summary", {}, `${info.missing.length} things are not in this recording`), h("ul", {}, ...info.missing.map((text) => h("li", {}, text)))));
  }
  return box;
}

function lossItem(recording: Recording, navigation: Navigation, loss: LossRow): HTMLElement {
  const thread = recording.index.threads[loss.thread];
  const where = loss.cpu >= 0 ? `CPU ${loss.cpu}` : thread ? `thread ${thread.tid}` : "all CPUs";
  const what = `${loss.count > 0 ? count(loss.count) : "an unknown number of"} events, ${loss.cause}, ${where}`;
  const go = link("show", () => navigation.show([loss.from - (loss.to - loss.from), loss.to + (loss.to - loss.from)]));
  return h("li", {}, `${what}${loss.remedy === "" ? "" : `; remedy: ${loss.remedy}`} `, loss.to > loss.from && go);
}
