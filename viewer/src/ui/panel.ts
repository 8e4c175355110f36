// The panel below the chart: what is selected, and tables about the whole recording, a tab each.
import type { Item } from "../data/query";
import type { App, Area } from "./app";
import { AreaDetails } from "./area";
import { fill, h } from "./dom";
import { infoTab, jsonTab } from "./facts";
import { ItemDetails } from "./item";
import { notesTab } from "./notes";
import { foundTab, namesTab, panelTab, threadsTab } from "./tabs";
import { tasksTab } from "./tasks";

interface Tab {
  id: string;
  text: string;
  content: () => HTMLElement;
}

export class Panel {
  private readonly tabs: HTMLElement;
  private readonly body: HTMLElement;
  private tab = "details";
  private details: HTMLElement = h("div", {});
  private run = 0;
  private again: () => void = () => undefined;

  constructor(private readonly app: App) {
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Panels", onkeydown: (event: KeyboardEvent) => this.key(event) });
    this.body = h("div", { class: "panel-body", role: "tabpanel", tabindex: 0 });
    app.shell.panel.append(this.tabs, this.body);
    this.drawTabs();
  }

  /** The colours changed. */
  rethemed(): void {
    this.again();
    this.open(this.tab);
  }

  private list(): Tab[] {
    const { app } = this;
    const { index } = app.recording;
    const tabs: (Tab | false)[] = [
      { id: "details", text: "Details", content: () => this.details },
      ...app.extraTabs(),
      ...app.accountTabs(),
      index.summary !== null && { id: "summary", text: "Summary", content: () => jsonTab(index.summary, this.elsewhere()) },
      ...index.panels.map((panel, i) => ({ id: `panel-${i}`, text: panel.title, content: () => panelTab(app, panel) })),
      index.names.length > 0 && { id: "names", text: "Names", content: () => namesTab(app) },
      index.threads.length > 0 && { id: "threads", text: "Threads", content: () => threadsTab(app) },
      index.n_tasks > 0 && { id: "tasks", text: "Tasks", content: () => tasksTab(app) },
      app.found !== undefined && { id: "found", text: "Found", content: () => foundTab(app) },
      { id: "notes", text: app.notes.length > 0 ? `Notes (${app.notes.length})` : "Notes", content: () => notesTab(app) },
      { id: "recording", text: "Recording", content: () => infoTab(index) },
    ];
    return tabs.filter((tab) => tab !== false);
  }

  /** Keys of the summary that have tabs of their own. */
  private elsewhere(): Set<string> {
    const { index } = this.app.recording;
    const keys = index.panels.map((panel) => panel.title.toLowerCase());
    if (index.account) keys.push("account");
    if (index.threads.length > 0) keys.push("threads");
    return new Set(keys);
  }

  /** Which tabs there are may have changed. */
  drawTabs(): void {
    const list = this.list();
    if (!list.some((tab) => tab.id === this.tab)) this.tab = "details";
    fill(
      this.tabs,
      ...list.map((tab) =>
        h("button", { type: "button", role: "tab", id: `${this.app.slot}tab-${tab.id}`, "data-do": `tab-${tab.id}`, "aria-selected": String(tab.id === this.tab), tabindex: tab.id === this.tab ? 0 : -1, onclick: () => this.open(tab.id) }, tab.text),
      ),
    );
  }

  /** Left and right step through the tabs, as tab lists do. */
  private key(event: KeyboardEvent): void {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const list = this.list();
    const at = list.findIndex((tab) => tab.id === this.tab);
    this.open(list[(at + by + list.length) % list.length]!.id);
    this.tabs.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
  }

  open(id: string): void {
    this.tab = id;
    this.drawTabs();
    const tab = this.list().find((tab) => tab.id === this.tab)!;
    this.body.setAttribute("aria-labelledby", `${this.app.slot}tab-${tab.id}`);
    fill(this.body, tab.content());
    this.body.scrollTop = 0;
  }

  shows(id: string): boolean {
    return this.tab === id;
  }

  /** Draws `id` again when it is open: what it shows has changed. */
  refresh(id: string): void {
    this.drawTabs();
    if (this.tab === id) this.open(id);
  }

  private show(details: HTMLElement): void {
    this.details = details;
    this.open("details");
  }

  /** Where a newcomer looks first. */
  openFirst(): void {
    const { index } = this.app.recording;
    const [extra] = [...this.app.extraTabs(), ...this.app.accountTabs()];
    this.open(extra ? extra.id : index.summary !== null ? "summary" : index.names.length > 0 ? "names" : index.threads.length > 0 ? "threads" : "details");
  }

  showNothing(): void {
    this.run++;
    this.again = () => undefined;
    this.details = h(
      "div",
      { class: "empty" },
      h("p", {}, "Nothing is selected."),
      h("p", { class: "muted" }, "Click an item for its details, or press j to select one and j, k, comma and full stop to go on from there. Shift+drag over the chart adds up an area. ? lists all keys."),
    );
    if (this.tab === "details") this.open("details");
  }

  async showItem(item: Item): Promise<void> {
    const run = ++this.run;
    this.again = () => void this.showItem(item);
    const details = new ItemDetails(this.app, item, () => run !== this.run);
    this.show(details.box);
    await details.fill();
  }

  async showArea(area: Area): Promise<void> {
    const run = ++this.run;
    this.again = () => void this.showArea(area);
    const details = new AreaDetails(this.app, area, () => run !== this.run);
    this.show(details.box);
    await details.fill();
  }
}
