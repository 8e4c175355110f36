// What the keys and the mouse do.
import { h } from "./dom";

const KEYS: [string, string][] = [
  ["W / S", "zoom in / out at the pointer"],
  ["A / D, \u2190 / \u2192", "move left / right (Shift: further)"],
  ["\u2191 / \u2193, wheel", "scroll the rows"],
  ["Ctrl + wheel", "zoom at the pointer"],
  ["Shift + wheel", "move left / right"],
  ["drag", "move the chart"],
  ["drag on the time axis", "zoom to that part"],
  ["Shift + drag", "select an area: totals in the details"],
  ["click", "select an item"],
  ["double click", "zoom to an item"],
  ["f", "fit the selection into the view"],
  ["0", "show everything"],
  ["/", "search; Enter and n: next, Shift+N: previous"],
  [", / .", "previous / next item in the row"],
  ["[ / ]", "previous / next item of the same name"],
  ["e", "all arrows in view on or off"],
  ["t", "dark or light"],
  ["Escape", "clear the selection"],
  ["?", "this help"],
];

export function helpDialog(): HTMLDialogElement {
  const rows = KEYS.map(([keys, what]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, keys)), h("td", {}, what)));
  const dialog = h(
    "dialog",
    { class: "help", "aria-label": "Help" },
    h("h2", {}, "Keys and mouse"),
    h("table", {}, h("tbody", {}, ...rows)),
    h("h2", {}, "How to read the chart"),
    h("p", {}, "A thread's thin upper row is what the kernel's scheduler did with it; below are its annotated slices, outermost first. Waits are hatched, held locks amber."),
    h("p", {}, "Where items are narrower than a pixel, the pixel has the colour of what filled most of it and is paler the less of it is filled; its upper edge is shaded when there are several, and keeps the colour of a preemption, a rare name or a name's longest slice that would otherwise be hidden."),
    h("p", {}, "Rows: the star pins a row to the top, the cross hides it. The page's address keeps the view, so a bookmark or a link leads back to it."),
    h("button", { type: "button", class: "tool", onclick: () => dialog.close() }, "Close"),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
