// The bar that says which events were lost. What was never recorded is no loss: the Recording tab has it.
import type { LossRow } from "../data/index";
import type { Recording } from "../data/recording";
import { count, duration } from "../view/units";
import { h } from "./dom";
import type { Navigation } from "./navigation";
import { button, link } from "./widgets";

/** Losses that are listed. */
const LISTED = 50;

/** `name` is what screen readers call the bar; where nothing was lost and no time stamp stands apart it is empty. */
export function lossBanner(recording: Recording, navigation: Navigation, name: string): HTMLElement {
  const { losses } = recording.index;
  const box = h("section", { class: "banners", "aria-label": name });
  const stray = strayNote(recording, navigation);
  if (stray) box.append(stray);
  if (losses.length === 0) return box;
  const known = losses.reduce((sum, loss) => sum + loss.count, 0);
  const list = h(
    "details",
    {},
    h("summary", {}, `${known > 0 ? count(known) : "Some"} events were lost; the hatched parts of the chart are incomplete`),
    h("ul", {}, ...losses.slice(0, LISTED).map((loss) => lossItem(recording, navigation, loss))),
    losses.length > LISTED && `and ${losses.length - LISTED} more`,
  );
  const note = h("div", { class: "banner lost", role: "note" }, h("div", { class: "text" }, list), button("Close this note", "\u2715", () => note.remove()));
  box.append(note);
  return box;
}

/** That the view begins without the time stamps that stand apart from all others, as if of another clock. */
function strayNote({ index }: Recording, navigation: Navigation): HTMLElement | undefined {
  const rest = index.without_stray;
  if (!rest) return undefined;
  const text = `All but a few time stamps stand within ${duration(rest[1] - rest[0])} of the ${duration(index.span[1] - index.span[0])}, as if the others were of another clock: the view begins there. `;
  const note = h("div", { class: "banner", role: "note" }, h("div", { class: "text" }, text, link("show all of it", () => navigation.show(index.span))), button("Close this note", "\u2715", () => note.remove()));
  return note;
}

/** One loss in words: how many, why, where, and what would help. */
function lossItem(recording: Recording, navigation: Navigation, loss: LossRow): HTMLElement {
  const thread = recording.index.threads[loss.thread];
  const where = loss.cpu >= 0 ? `CPU ${loss.cpu}` : thread ? `thread ${thread.tid}` : "all CPUs";
  const what = `${loss.count > 0 ? count(loss.count) : "an unknown number of"} events, ${loss.cause}, ${where}`;
  // With as much time before and after it as it lasted: what surrounds a gap says what is missing.
  const go = link("show", () => navigation.show([loss.from - (loss.to - loss.from), loss.to + (loss.to - loss.from)]));
  return h("li", {}, `${what}${loss.remedy === "" ? "" : `; remedy: ${loss.remedy}`} `, loss.to > loss.from && go);
}
