// The search box of the tool bar.
import { count } from "../view/units";
import { h } from "./dom";
import type { Search } from "./search";
import type { ViewState } from "./state";
import { button } from "./widgets";

/** `leave` is called when the person has done with searching. */
export function searchBox(state: ViewState, search: Search, leave: () => void): { bar: HTMLElement; input: HTMLInputElement } {
  const status = h("span", { class: "found", role: "status", "aria-live": "polite" });
  const input = h("input", {
    type: "search",
    class: "search",
    placeholder: "Search names or /regex/",
    "aria-label": "search for slices by name",
    oninput: () => search.set(input.value),
    onkeydown: (event: KeyboardEvent) => {
      if (event.key === "Enter") {
        event.preventDefault();
        void search.step(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        search.set("");
        leave();
      }
    },
  });
  // Shown only while something is searched for: the bar is full otherwise.
  const previous = button("Previous match (Shift+N)", "\u2039", () => void search.step(-1));
  const next = button("Next match (n)", "\u203a", () => void search.step(1));
  const steps = h("span", { class: "steps", hidden: true }, status, previous, next);
  search.busy.on((busy) => input.classList.toggle("busy", busy));
  // The text may be set from elsewhere: by the address, or by the other view of a pair.
  const update = (): void => {
    const { found } = state;
    if (input.value !== search.text) input.value = search.text;
    steps.hidden = !found;
    input.classList.toggle("wrong", found?.query.error !== undefined);
    if (!found) return;
    const some = `${count(found.slices)} in ${count(found.names)} name${found.names === 1 ? "" : "s"}`;
    status.textContent = found.query.error ?? (found.slices === 0 ? "no match" : some);
    previous.disabled = next.disabled = found.query.error !== undefined;
  };
  state.foundChanged.on(update);
  return { bar: h("div", { class: "search-bar", role: "search" }, input, steps), input };
}
