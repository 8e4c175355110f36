// The help: what the keys and the mouse do, what the colours mean, and the terms of docs/glossary.md.
import { append, fill, h } from "./dom";
import { colourMeanings, termMeanings } from "./legend";
import type { ViewState } from "./state";

/** For people; what the keys do is in `KEYS` of ui/input.ts. Groups, then a key and what it does. */
const KEYS: [string, [string, string][]][] = [
  [
    "Move",
    [
      ["W / S, Ctrl+wheel", "zoom at the pointer"],
      ["A / D, \u2190 / \u2192", "move left / right (Shift: further)"],
      ["\u2191 / \u2193, wheel", "scroll the rows"],
      ["drag", "move the chart"],
      ["drag on the axis", "zoom to that part"],
      ["drag in overview", "move or choose the part in view"],
      ["0", "show everything"],
    ],
  ],
  [
    "Select",
    [
      ["click", "select an item; double click zooms to it"],
      ["j / k", "select in the row below / above"],
      [", / .", "previous / next item in the row"],
      ["[ / ]", "previous / next item of the same name"],
      ["Shift + drag", "mark an area: its totals, its account"],
      ["f, Enter", "zoom to what is selected"],
      ["Escape", "clear the selection"],
    ],
  ],
  [
    "Find and keep",
    [
      ["/", "search by text or /regular expression/"],
      ["n / Shift + N", "next / previous match"],
      ["b", "write a note about the selection"],
      ["c", "compact rows, one for each thread"],
      ["p", "keep the selection's row at the top"],
      ["e", "arrows for all that is in view"],
      ["x", "running threads and CPUs by the function they ran"],
      ["i", "CPUs by the innermost annotation"],
      ["t", "dark or light"],
      ["?", "this help"],
    ],
  ],
];

/** A paragraph each. */
const READING = [
  "A thread's thin upper row is what the kernel's scheduler did with it; below are its annotated slices, outermost first. Slices and threads have the colours of their names; waits are hatched.",
  "The rows of CPUs show threads, or what these did: Annotations gives each CPU the innermost annotation that it was in (green: the program ran outside of all), Functions the functions that samples found; in programs without annotations they are shown from the start.",
  "Compact rows show a thread's states above its outermost slices, all threads at once where they fit. A click on a thread's name, or p, shows that thread in full at the top.",
  "A lock's rows show who holds it, in the holder's colour, and below, hatched, who waits for it.",
  "Where items are narrower than a pixel, the pixel has the colour of what filled most of it and is paler the less of it is filled. Its upper edge is shaded when items were merged, and has the colour of a preemption, a rare name or a name's longest slice that would otherwise be hidden; a dark mark above it says that several such things are hidden there: zoom in.",
  "The star pins a row to the top, the cross hides it. The page's address keeps the view, the selection and the notes, so a bookmark or a link leads back to all of it.",
];

export class Help {
  readonly element: HTMLDialogElement;
  /** Filled when the help is opened: most people who open a report never ask, and colours depend on the theme. */
  private readonly colours = h("div", {});
  private readonly terms = h("div", {});

  constructor(private readonly state: ViewState) {
    const dialog = (this.element = h("dialog", { class: "help", "aria-label": "Help" }));
    append(dialog, [
      // Else the first button would have the focus, and it is at the end.
      h("h2", { tabindex: -1, autofocus: true }, "Keys and mouse"),
      h("div", { class: "key-groups" }, ...KEYS.map(([title, keys]) => keyGroup(title, keys))),
      h("h2", {}, "What the colours mean"),
      this.colours,
      h("h2", {}, "How to read the chart"),
      ...READING.map((text) => h("p", {}, text)),
      h("h2", {}, "Terms"),
      this.terms,
      h("button", { type: "button", class: "tool", onclick: () => dialog.close() }, "Close"),
    ]);
    // A click beside the box is one on the dialog itself.
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }

  /** While it is open keys are for the dialog, not for the chart. */
  get isOpen(): boolean {
    return this.element.open;
  }

  open(): void {
    fill(this.colours, colourMeanings(this.state));
    fill(this.terms, termMeanings());
    this.element.showModal();
  }
}

/** One column of keys, as a table: its rows are read out key by key. */
function keyGroup(title: string, keys: [string, string][]): HTMLElement {
  const rows = keys.map(([key, what]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, what)));
  return h("section", {}, h("h3", {}, title), h("table", {}, h("tbody", {}, ...rows)));
}
