// Elements without a framework.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined | ((event: never) => void)>;

/**
 * Makes an element. Texts become text nodes, never HTML: names come from recordings, which may hold anything. An attribute
 * whose value is a function is a listener, "onclick" for click; undefined and false leave an attribute out.
 * `h("button", { class: "x", onclick: f }, "text")`
 */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as unknown as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** Adds what is there: null, undefined and false stand for parts that are left out. */
export function append(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
}

/** Replaces what is in `parent`. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

/** Like {@link h}, for the elements of pictures. */
export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as unknown as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}
