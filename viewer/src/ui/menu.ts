// A button that opens a box of things below it.
import { h } from "./dom";

/** A details element: it opens by mouse and by keyboard without a script, and screen readers know it. */
export function menu(label: string, text: string, ...children: HTMLElement[]): HTMLDetailsElement {
  const box = h("details", { class: "menu" }, h("summary", { class: "tool", title: label }, text), h("div", { class: "menu-box" }, ...children));
  // Closes as menus do: by Escape, and by a click elsewhere.
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    box.open = false;
    box.querySelector("summary")?.focus();
    event.stopPropagation();
  });
  box.addEventListener("click", (event) => {
    if ((event.target as Element).closest("button")) box.open = false;
  });
  document.addEventListener("pointerdown", (event) => {
    if (!box.contains(event.target as Node)) box.open = false;
  });
  return box;
}
