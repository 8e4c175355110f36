// Small pieces that several parts of the page are made of.
import { append, h } from "./dom";
import type { Cell } from "./table";

/** Adds a name and its value to a list of facts. */
export function fact(list: HTMLElement, name: string, value: HTMLElement | string): void {
  list.append(h("dt", {}, name), h("dd", {}, value));
}

/** A square of `colour` before `text`; `kind` is a class of the square: hatched, lost. */
export function swatch(colour: string, text: string, kind = "", note?: string): HTMLElement {
  return h("span", { class: "swatch" }, h("i", { class: kind, style: `--c:${colour}` }), text, note !== undefined && h("span", { class: "muted" }, ` ${note}`));
}

/** The same as a cell of a table; a note of "work" says nothing. */
export function swatched(colour: string, text: string, note?: string): Exclude<Cell, string | number> {
  return { value: text, text, node: swatch(colour, text, "", note === "work" ? undefined : note) };
}

/** Text that leads somewhere in the page. */
export function link(text: string, go: () => void): HTMLElement {
  return h("button", { type: "button", class: "link", onclick: go }, text);
}

/** A button of a tool bar; `label` is what it does, for the pointer that rests and for screen readers. */
export function button(label: string, text: string, onclick: () => void): HTMLButtonElement {
  return h("button", { type: "button", class: "tool", title: label, "aria-label": label, onclick }, text);
}

/** A button of a heading; tests and focus find it by `action`. */
export function tool(action: string, title: string, text: string, onclick: () => void): HTMLElement {
  return h("button", { type: "button", class: "tool", title, "data-do": action, onclick }, text);
}

export interface Share {
  colour: string;
  name: string;
  ns: number;
  percent: string;
}

/** Parts of `whole` as one coloured bar; `wide` as wide as the panel. */
export function shareBar(shares: Share[], whole: number, wide = false): HTMLElement {
  const texts = shares.map(({ name, percent }) => `${name} ${percent}`);
  const bar = h("div", { class: wide ? "share-bar wide" : "share-bar", role: "img", "aria-label": texts.join(", ") });
  append(bar, shares.map(({ colour, ns }, i) => h("i", { style: `width:${(100 * ns) / whole}%;--c:${colour}`, title: texts[i]! })));
  return bar;
}
