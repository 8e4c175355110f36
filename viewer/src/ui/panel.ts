// The panel below the chart: what is selected, and tabs about the whole recording.
import { fill, h } from "./dom";

export interface Tab {
  id: string;
  text: string;
  content: () => HTMLElement;
  /** What it shows follows the selection: it stays open when something else is selected, and hears of that. */
  follow?: () => void;
}

/** Details of what is selected: an element that fills up while parts of the recording are read. */
export interface Details {
  box: HTMLElement;
  fill: () => Promise<void>;
}

const NOTHING = "Click an item for its details, or press j to select one and j, k, comma and full stop to go on from there. Shift+drag over the chart adds up an area. ? lists all keys.";

export class Panel {
  private readonly tabs: HTMLElement;
  private readonly body: HTMLElement;
  /** The open tab, and what the first one shows. */
  private tab = "details";
  private details: HTMLElement = h("div", {});
  /** Number of the last selection: details of an earlier one that still fill up see that they are cancelled. */
  private run = 0;
  /** Makes the details anew, in other colours. */
  private again: () => void = () => undefined;

  /** `list` gives the tabs behind the first, which has the details; `prefix` keeps ids apart from another panel's. */
  constructor(
    readonly element: HTMLElement,
    private readonly prefix: string,
    private readonly list: () => Tab[],
  ) {
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Panels", onkeydown: (event: KeyboardEvent) => this.key(event) });
    this.body = h("div", { class: "panel-body", role: "tabpanel", tabindex: 0 });
    element.append(this.tabs, this.body);
    this.showNothing();
  }

  /** The colours changed. */
  rethemed(): void {
    this.again();
    this.open(this.tab);
  }

  private all(): Tab[] {
    return [{ id: "details", text: "Details", content: () => this.details }, ...this.list()];
  }

  /** Only the open tab can be reached by the Tab key; the arrow keys lead to the others. */
  private drawTabs(all: Tab[]): void {
    if (!all.some((tab) => tab.id === this.tab)) this.tab = "details";
    const buttons = all.map((tab) => {
      const chosen = tab.id === this.tab;
      const attributes = { type: "button", role: "tab", id: `${this.prefix}tab-${tab.id}`, "data-do": `tab-${tab.id}`, "aria-selected": String(chosen), tabindex: chosen ? 0 : -1 };
      return h("button", { ...attributes, onclick: () => this.open(tab.id) }, tab.text);
    });
    fill(this.tabs, ...buttons);
  }

  /** Left and right step through the tabs, as tab lists do. */
  private key(event: KeyboardEvent): void {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const all = this.all();
    const at = all.findIndex((tab) => tab.id === this.tab);
    this.open(all[(at + by + all.length) % all.length]!.id);
    this.tabs.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
  }

  /** Opens the tab `id`; the details when there is none. */
  open(id: string): void {
    this.tab = id;
    const all = this.all();
    this.drawTabs(all);
    const tab = all.find((tab) => tab.id === this.tab)!;
    this.body.setAttribute("aria-labelledby", `${this.prefix}tab-${tab.id}`);
    fill(this.body, tab.content());
    this.body.scrollTop = 0;
  }

  /** Opens the first of `ids` that is there. */
  openFirst(ids: string[]): void {
    const there = new Set(this.all().map((tab) => tab.id));
    this.open(ids.find((id) => there.has(id)) ?? "details");
  }

  shows(id: string): boolean {
    return this.tab === id;
  }

  /** What `id` shows has changed, or whether it is there at all. */
  refresh(id: string): void {
    if (this.tab === id) this.open(id);
    else this.drawTabs(this.all());
  }

  showNothing(): void {
    this.run++;
    this.again = () => undefined;
    this.details = h("div", { class: "empty" }, h("p", {}, "Nothing is selected."), h("p", { class: "muted" }, NOTHING));
    if (this.tab === "details") this.open("details");
    else this.following()?.();
  }

  /** What the open tab does when something else is selected; undefined: the details are opened instead. */
  private following(): (() => void) | undefined {
    return this.list().find((tab) => tab.id === this.tab)?.follow;
  }

  /** Shows the details that `make` builds; `cancelled` tells them that something else is shown by now. */
  async showDetails(make: (cancelled: () => boolean) => Details): Promise<void> {
    const run = ++this.run;
    this.again = () => void this.showDetails(make);
    const details = make(() => run !== this.run);
    this.details = details.box;
    const follow = this.following();
    if (follow) follow();
    else this.open("details");
    await details.fill();
  }
}
