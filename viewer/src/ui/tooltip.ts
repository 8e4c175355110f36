// What is under the pointer.
import { Kind } from "../data/index";
import { count, duration } from "../view/units";
import { itemKind, itemTitle, ownerLabel } from "./describe";
import type { Item } from "../data/query";
import { timeAt } from "../view/viewport";
import { fill, h } from "./dom";
import type { Selection } from "./selection";
import type { ViewState } from "./state";

/** Follows the pointer, not focus: people who use keys hear the same when they select. */
export class Tooltip {
  private readonly box = h("div", { class: "tooltip", hidden: true, role: "tooltip" });
  private run = 0;

  /**
   * `accountAt` is what the account says at a place of the canvas, if its row is there; `codeOf` is what samples say about the code
   * of an item near a time.
   */
  constructor(
    private readonly state: ViewState,
    private readonly selection: Selection,
    private readonly accountAt: (x: number, y: number) => HTMLElement[] | undefined,
    private readonly codeOf: (item: Item, t: number) => Promise<HTMLElement[]>,
  ) {
    document.body.append(this.box);
  }

  hide(): void {
    this.run++;
    this.box.hidden = true;
    if (this.state.hover) {
      this.state.hover = undefined;
      this.state.redraw();
    }
  }

  /** Looks what is at (`x`, `y`) of the canvas, which is at (`pageX`, `pageY`) of the page. */
  async at(x: number, y: number, pageX: number, pageY: number): Promise<void> {
    // Finding the item may have to read a part of the recording; by then the pointer may be elsewhere.
    const run = ++this.run;
    const shares = this.accountAt(x, y);
    if (shares) {
      fill(this.box, ...shares);
      this.place(pageX, pageY);
      return;
    }
    const found = await this.selection.itemAt(x, y);
    if (run !== this.run) return;
    if (!found) {
      this.hide();
      return;
    }
    const { item, count: n } = found;
    const { recording } = this.state;
    // A frame only when another item is framed, not with every move of the pointer.
    if (this.state.hover?.line !== item.line || this.state.hover.item !== item.item) {
      this.state.hover = item;
      this.state.redraw();
    }
    const pointLike = item.line.kind === Kind.Instant || item.line.kind === Kind.Counter;
    fill(
      this.box,
      h("strong", {}, itemTitle(recording, item)),
      h("div", {}, pointLike ? itemKind(recording, item) : `${duration(item.end - item.start)} \u00b7 ${itemKind(recording, item)}`),
      h("div", { class: "muted" }, ownerLabel(recording, item.line)),
      n > 1 && h("div", { class: "muted" }, `the longest of ${count(n)} here; zoom in for the others`),
    );
    this.place(pageX, pageY);
    const code = await this.codeOf(item, timeAt(this.state.view, x));
    if (run !== this.run || code.length === 0) return;
    this.box.append(...code);
    this.place(pageX, pageY);
  }

  /** Beside the pointer, and inside the window. */
  private place(pageX: number, pageY: number): void {
    this.box.hidden = false;
    const { offsetWidth, offsetHeight } = this.box;
    const left = pageX + 14 + offsetWidth > window.innerWidth ? pageX - offsetWidth - 10 : pageX + 14;
    const top = pageY + 16 + offsetHeight > window.innerHeight ? pageY - offsetHeight - 10 : pageY + 16;
    this.box.style.transform = `translate(${Math.max(0, left)}px, ${Math.max(0, top)}px)`;
  }
}
