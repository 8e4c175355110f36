// The view of one recording: makes its parts and tells each what it uses. Nothing but the page's start and the pair know this
// class; no part does.
import { Account } from "../data/account";
import { CallPathTable } from "../data/call-paths";
import { PieceTable } from "../data/pieces";
import type { Recording } from "../data/recording";
import { TaskTable } from "../data/tasks";
import { accountAt, AccountTab } from "./account";
import { Keeper, type Address } from "./address";
import { AreaDetails } from "./area";
import { Arrows } from "./arrows";
import { append, fill, h } from "./dom";
import { infoTab } from "./facts";
import { FlameTab, type OtherRecording } from "./flame";
import { gripFor } from "./grip";
import { Headers } from "./headers";
import { Help } from "./help";
import { bindInput } from "./input";
import { ItemDetails } from "./item";
import { legend, type LegendOf } from "./legend";
import { homeOf } from "./life";
import { lossBanner } from "./losses";
import { Minimap } from "./minimap";
import { Navigation } from "./navigation";
import { Notes } from "./notes";
import { notesTab } from "./notes-tab";
import { Panel, type Tab } from "./panel";
import { savePicture } from "./pictures";
import { programNote } from "./program";
import { Rows } from "./rows";
import { Scenes } from "./scenes";
import { Search } from "./search";
import { Selection } from "./selection";
import { codeOf } from "./stack";
import { Stage } from "./stage";
import { ViewState } from "./state";
import { summaryTab } from "./summary";
import { foundTab, namesTab, panelTab, threadsTab } from "./tabs";
import { tasksTab } from "./tasks";
import { toolbar } from "./toolbar";
import { Tooltip } from "./tooltip";

/** How a view is part of a page with two. */
export interface Companion {
  /** Tells its ids and its part of the address from the other's. */
  slot: string;
  panelHost: HTMLElement;
  /** What "show everything" shows. */
  home: () => [number, number];
  /** Tabs about both. */
  tabs: () => Tab[];
  /** The page's other recording, for flame graphs of both; undefined: it has no samples. */
  other: () => OtherRecording | undefined;
  /** Whether keys are meant for this view. */
  active: () => boolean;
  focusSearch: () => void;
}

/** Rows that need more screens than this are compact from the start. */
const SCREENS = 3;

/** Fields are public for the pair and for tests; parts get what they use through their constructors. */
export class RecordingView {
  readonly state: ViewState;
  readonly stage: Stage;
  readonly navigation: Navigation;
  readonly rows: Rows;
  readonly selection: Selection;
  readonly search: Search;
  readonly notes: Notes;
  readonly account: Account;
  readonly scenes: Scenes;
  readonly panel: Panel;
  readonly searchInput: HTMLInputElement;
  readonly help: Help;
  private readonly tasks: TaskTable;
  private readonly accountTab: AccountTab;
  readonly callPaths: CallPathTable;
  readonly pieces: PieceTable;
  readonly flame: FlameTab;
  /** When what the first picture does not need is there, too. */
  readonly loaded: Promise<void>;

  constructor(
    readonly recording: Recording,
    readonly root: HTMLElement,
    address: Address,
    private readonly companion?: Companion,
  ) {
    // Parts are made in the order in which they use each other. Only what they need is handed to them.
    const slot = companion?.slot ?? "";
    const named = (part: string): string => (slot === "" ? part : `${part}, second recording`);
    const state = (this.state = new ViewState(recording, matchMedia("(prefers-color-scheme: dark)").matches));
    this.help = new Help(state);
    const stage = (this.stage = new Stage(state, named("Chart"), slot === ""));
    const navigation = (this.navigation = new Navigation(state, stage.chart, companion?.home ?? (() => homeOf(recording))));
    const rows = (this.rows = new Rows(state, navigation));
    const selection = (this.selection = new Selection(state, rows, navigation));
    const search = (this.search = new Search(state, selection));
    this.notes = new Notes(state, navigation);
    this.tasks = new TaskTable(recording);
    this.account = new Account(recording);
    this.callPaths = new CallPathTable(recording);
    this.pieces = new PieceTable(recording);
    this.accountTab = new AccountTab(state, this.account, selection, this.showLoss);
    this.flame = new FlameTab(state, this.callPaths, this.pieces, companion?.other ?? (() => undefined));
    const arrows = new Arrows(state, this.tasks);
    this.scenes = new Scenes(state, this.account, arrows, this.callPaths);
    const minimap = new Minimap(state, this.account, navigation, named("Overview"));
    const { bar, search: searchInput } = toolbar(
      { state, stage, rows, navigation, search, arrows, help: this.help, savePicture: (kind) => savePicture(this.scenes.now(), kind) },
      named("Recording"),
      companion === undefined,
    );
    this.searchInput = searchInput;
    const panelElement = h("section", { class: "panel", "aria-label": named("Details") });
    panelElement.append(gripFor(panelElement));
    this.panel = new Panel(panelElement, slot, () => this.tabs());
    const live = h("div", { class: "for-readers", role: "status", "aria-live": "polite" });
    state.said.on((text) => (live.textContent = text));
    fill(root, bar, lossBanner(recording, navigation, named("Lost events")), minimap.element, stage.chart, live, this.help.element);
    append(companion?.panelHost ?? root, [panelElement]);
    if (!companion) root.append(legend([this.legendOf]));

    const headers = new Headers(state, rows, stage.headers);
    const tooltip = new Tooltip(state, selection, (x, y) => accountAt(state, this.account, x, y), (item, t) => codeOf(state, this.callPaths, item, t, 6));
    this.connect(minimap, headers);
    // The address is read before the rows are laid out, and written only after everything has its first state.
    const keeper = new Keeper(state, { selection, search, arrows, navigation }, address, slot);
    keeper.restore();
    rows.arrange();
    const focusSearch = companion?.focusSearch ?? (() => searchInput.focus());
    bindInput({ state, stage, navigation, rows, selection, search, arrows, tooltip, focusSearch, help: this.help, panel: panelElement, addNote: () => this.addNote(), active: companion?.active ?? (() => true) });
    stage.start(() => this.scenes.now());
    if (!companion) this.chooseRows(SCREENS);
    // A pair opens what is about both, once both are there.
    if (!state.area && !companion) this.panel.openFirst(["summary", "account", "names", "threads"]);
    keeper.start();
    this.loaded = this.load(minimap);
  }

  /** Leads from a class of the account to the code behind it. */
  private get showLoss(): ((loss: number) => void) | undefined {
    if (!this.pieces.exists) return undefined;
    return (loss) => {
      this.flame.showLoss(loss);
      this.panel.open("flame");
    };
  }

  /** Leads from the name of slices to the code that ran in them. */
  private get showName(): ((value: number) => void) | undefined {
    if (!this.callPaths.exists) return undefined;
    return (value) => {
      this.flame.showName(value);
      this.panel.open("flame");
    };
  }

  get legendOf(): LegendOf {
    return { state: this.state, functionColours: () => this.scenes.functionColours };
  }

  /** Who listens to whom. */
  private connect(minimap: Minimap, headers: Headers): void {
    const { state, stage, panel } = this;
    this.recording.onload = () => state.redraw();
    stage.drawn.on(() => {
      headers.update();
      minimap.draw();
    });
    stage.resized.on((width) => minimap.resize(width));
    state.selectionChanged.on(() => this.showDetails());
    state.foundChanged.on(() => panel.refresh("found"));
    state.notesChanged.on(() => panel.refresh("notes"));
    state.programChanged.on(() => {
      panel.refresh("summary");
      panel.refresh("threads");
      panel.refresh("account");
      minimap.rethemed();
    });
    // Elements take their colours from the style sheet by this attribute; canvases are painted anew.
    const colour = (): void => {
      document.documentElement.dataset.theme = state.theme.dark ? "dark" : "light";
      minimap.rethemed();
    };
    colour();
    state.themeChanged.on(() => {
      colour();
      panel.rethemed();
    });
    let timer: ReturnType<typeof setTimeout> | undefined;
    state.kept.on(() => {
      clearTimeout(timer);
      // Adding up while the view moves would only delay the frames.
      timer = setTimeout(() => {
        if (panel.shows("account")) void this.accountTab.update();
        if (panel.shows("flame")) this.flame.viewChanged();
      }, 250);
    });
  }

  /** Chooses compact rows where the others would need more than `screens` screens, and draws the first picture. */
  chooseRows(screens: number): void {
    this.stage.measure();
    this.rows.chooseCompact(screens);
    // Many rows need the room more than the panel does.
    this.panel.element.classList.toggle("low", this.state.compact);
    this.stage.draw();
  }

  /** Reads what the first picture does not need. */
  private async load(minimap: Minimap): Promise<void> {
    await this.account.load();
    this.state.redraw();
    await minimap.load();
  }

  /** The panel shows what is selected, or that nothing is. */
  private showDetails(): void {
    const { state, selection, search, navigation, account, tasks, callPaths } = this;
    const { selected, area } = state;
    const addNote = (): void => this.addNote();
    if (selected) void this.panel.showDetails((cancelled) => new ItemDetails({ state, selection, search, navigation, tasks, callPaths, addNote, showName: this.showName }, selected, cancelled));
    else if (area) void this.panel.showDetails((cancelled) => new AreaDetails({ state, selection, account, navigation, addNote, showLoss: this.showLoss }, area, cancelled));
    else this.panel.showNothing();
  }

  /** Adds a note and lets the person write it. */
  addNote(): void {
    const note = this.notes.add();
    this.panel.open("notes");
    const at = this.state.notes.indexOf(note);
    this.panel.element.querySelectorAll<HTMLInputElement>(".note-text")[at]?.focus();
  }

  /** The tabs behind the details, in order. Some come and go: what was found, notes. */
  private tabs(): Tab[] {
    const { state, selection, search, rows, notes, tasks, recording } = this;
    const { index } = recording;
    const tabs: (Tab | false)[] = [
      ...(this.companion?.tabs() ?? []),
      index.summary !== null && { id: "summary", text: "Summary", content: () => summaryTab(state, selection) },
      index.account !== null && { id: "account", text: "Account", content: () => h("div", {}, programNote(state), this.accountTab.open()) },
      this.callPaths.exists && { id: "flame", text: "Flame graph", content: () => this.flame.open(), follow: () => this.flame.selectionChanged() },
      ...index.panels.map((panel, i) => ({ id: `panel-${i}`, text: panel.title, content: () => panelTab(state, selection, panel) })),
      index.names.length > 0 && { id: "names", text: "Names", content: () => namesTab(state, selection, this.showName) },
      index.threads.length > 0 && { id: "threads", text: "Threads", content: () => threadsTab(state, rows) },
      index.n_tasks > 0 && { id: "tasks", text: "Tasks", content: () => tasksTab({ state, selection, tasks }) },
      state.found !== undefined && { id: "found", text: "Found", content: () => foundTab({ state, selection, search }) },
      { id: "notes", text: state.notes.length > 0 ? `Notes (${state.notes.length})` : "Notes", content: () => notesTab(state, notes, () => this.addNote(), () => this.stage.canvas.focus()) },
      { id: "recording", text: index.info.missing.length > 0 ? `Recording (${index.info.missing.length})` : "Recording", content: () => infoTab(index) },
    ];
    return tabs.filter((tab) => tab !== false);
  }
}
