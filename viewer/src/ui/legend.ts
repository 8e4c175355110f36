// What the colours mean: a line below the chart with those that are used, which opens to all of them where they take more than a
// line, and tables for the help with a definition of each.
import { CODE_KINDS } from "../data/call-paths";
import { classDefinition, GLOSSARY, type Section } from "../data/glossary";
import { groupBy } from "../data/group";
import { Kind, LATENESS, SLICE_KINDS, SliceKind, STATE_NAMES } from "../data/index";
import type { Recording } from "../data/recording";
import { encodeNamed } from "../data/value";
import type { CodeColours } from "../draw/code-rows";
import { classColour, classOrder, codeColour, css, isWait, kindMeaning, latenessColour, meaningColour, stateColour } from "../draw/palette";
import { shortName } from "../view/code-name";
import { fill, h } from "./dom";
import type { ViewState } from "./state";
import { swatch } from "./widgets";

/** One colour: what it is called, what that is, and how its square is drawn. */
interface Entry {
  colour: string;
  name: string;
  meaning: string;
  kind: string;
  /** Takes less than a hundredth of the time: not in the line, until it is opened. */
  rare?: boolean;
}

/** Share of the time below which a colour is rare. */
const RARE = 0.01;

/** By state's number. */
const STATE_MEANINGS = [
  "events are missing",
  "has a CPU",
  "was woken, waits for a CPU",
  "lost its CPU to another thread, waits for one",
  "waits for something, needs no CPU",
  "waits for input or output",
  "stopped by a signal or a debugger",
  "a thread of the kernel without work",
  "has ended",
];
/** From what matters most to what matters least. */
const STATE_ORDER = [1, 2, 3, 4, 5, 6, 7, 8, 0];

/** By kind's number; work and task runs have the colours of their names. */
const KIND_MEANINGS: Partial<Record<number, string>> = {
  [SliceKind.Barrier]: "waits for the slowest thread",
  [SliceKind.Join]: "waits for threads to end",
  [SliceKind.Cond]: "waits for another thread's signal",
  [SliceKind.Io]: "waits for input or output",
  [SliceKind.OtherWait]: "waits, for what was not said",
  [SliceKind.LockWait]: "waits for a lock",
  [SliceKind.LockHold]: "holds a lock",
};

/** The states that some thread of the recording was in. */
function states({ index }: Recording, dark: boolean): Entry[] {
  const sums = STATE_NAMES.map((_, state) => index.threads.reduce((sum, thread) => sum + (thread.states[state] ?? 0), 0));
  const least = RARE * sums.reduce((sum, ns) => sum + ns, 0);
  return STATE_ORDER.filter((state) => sums[state]! > 0).map((state) => ({ colour: css(stateColour(state, dark)), name: STATE_NAMES[state] ?? "", meaning: STATE_MEANINGS[state] ?? "", kind: "", rare: sums[state]! < least }));
}

/** The kinds of waits and holds that some slice has. */
function kinds({ index }: Recording, dark: boolean): Entry[] {
  const used = new Set(index.names.map((row) => row.kind));
  const entries = Object.entries(KIND_MEANINGS).filter(([kind]) => used.has(Number(kind)));
  return entries.map(([key, meaning]) => {
    const kind = Number(key);
    return { colour: css(meaningColour(kindMeaning(kind)!, dark)), name: SLICE_KINDS[kind] ?? "", meaning: meaning!, kind: isWait(kind) ? "hatched" : "" };
  });
}

/** Classes of the account, from the bottom of the stack; only those that something was charged to, here or in the summary, or all. */
function classes({ index }: Recording, dark: boolean, all: boolean): Entry[] {
  const { account } = index;
  if (!account) return [];
  const used = new Set(account.causes.map((cause) => account.classes[cause.class]?.[0]));
  const sums = index.summary?.account?.classes ?? [];
  for (const sum of sums) if (sum.ns > 0) used.add(sum.class);
  const least = RARE * sums.reduce((total, { ns }) => total + ns, 0);
  const order = classOrder(account.classes.map(([key]) => key)).filter((c) => all || used.has(account.classes[c]![0]));
  return order.map((c) => {
    const [key, name, meaning] = account.classes[c]!;
    return { colour: css(classColour(key, dark)), name, meaning, kind: "", rare: sums.some((sum) => sum.class === key && sum.ns < least) };
  });
}

const CODE_MEANINGS = ["compiled by an ordinary compiler", "put into its caller by the compiler: no call of its own", "the operating system's", "made while the program ran", "a function of an interpreted language, such as Python", "only its address is known: kasuri symbolize may name it"];

/** Kinds of code, of recordings with call paths. */
function code({ index }: Recording, dark: boolean): Entry[] {
  return index.call_paths ? CODE_KINDS.map((name, kind) => ({ colour: css(codeColour(kind, dark)), name, meaning: CODE_MEANINGS[kind] ?? "", kind: "" })) : [];
}

const LATENESS_MEANINGS = ["started before its planned time, by more than 1 % of the plan's length", "started within 1 % of the plan's length of its planned time", "started later than planned, by up to 10 % of the plan's length", "started later than that"];

/** How late the tasks of a plan were. */
function planned({ index }: Recording, dark: boolean): Entry[] {
  const used = new Set(index.lateness?.map(([, lateness]) => lateness));
  return LATENESS.map((name, lateness) => ({ colour: css(latenessColour(lateness, dark)), name, meaning: LATENESS_MEANINGS[lateness] ?? "", kind: "" })).filter((_, lateness) => used.has(lateness));
}

function lost({ index }: Recording, dark: boolean): Entry[] {
  return index.losses.length > 0 ? [{ colour: css(meaningColour("eventsLost", dark)), name: "events lost", meaning: "what happened here is not known", kind: "lost" }] : [];
}

/** `entries` with those of one look as one: a join is a barrier of two, and both have the barrier's colour. */
function merged(entries: Entry[]): Entry[] {
  const looks = groupBy(entries, ({ colour, kind }) => `${colour} ${kind}`);
  return [...looks.values()].map((same) => {
    const unique = (text: (entry: Entry) => string): string => [...new Set(same.map(text))].join(", ");
    return { ...same[0]!, name: unique(({ name }) => name), meaning: unique(({ meaning }) => meaning), rare: same.every(({ rare }) => rare === true) };
  });
}

/** Functions or annotations of the line below the chart: as many as fit beside each other. */
const NAMED = 10;

/** What the rows of CPUs, and running threads, show now: the functions or the annotations with most time. */
function rowColours({ state, functionColours }: LegendOf): { title: string; entries: Entry[] } {
  const { recording, colours, runningBy } = state;
  const entry = (colour: number, name: string, meaning: string): Entry => ({ colour: css(colour), name, meaning, kind: "" });
  const more = (n: number, what: string): Entry[] => (n > NAMED ? [{ colour: "transparent", name: `and ${n - NAMED} more`, meaning: `${what} that ran less`, kind: "" }] : []);
  if (runningBy === "functions") {
    const top = functionColours()?.top ?? [];
    return { title: "Functions", entries: [...top.slice(0, NAMED).map(({ name, rgb }) => entry(rgb, shortName(name), name)), ...more(top.length, "functions")] };
  }
  if (runningBy === "states") return { title: "", entries: [] };
  const isPlanned = new Set(recording.index.lateness?.map(([name]) => name));
  const names = recording.index.names.filter(({ name, kind }) => (kind === SliceKind.Work || kind === SliceKind.TaskRun) && !isPlanned.has(name)).sort((a, b) => b.total - a.total);
  const entries = names.slice(0, NAMED).map((row) => entry(colours.of(Kind.Slice, encodeNamed(row.name, row.kind)), recording.text(row.name), "an annotation: on a CPU, the innermost one that it was in"));
  return { title: "CPUs", entries: [...entries, ...more(names.length, "annotations")] };
}

/** A view whose colours the legend names. */
export interface LegendOf {
  state: ViewState;
  functionColours: () => CodeColours | undefined;
}

/** The line below the chart, for all recordings of the page. */
export function legend(of: LegendOf[]): HTMLElement {
  const views = of.map(({ state }) => state);
  const groups = h("div", { class: "legend-groups" });
  const more = h("button", { class: "legend-more", "aria-expanded": "false", title: "Every colour that is used", onclick: () => open(!box.classList.contains("open")) }, "All colours");
  const box = h("footer", { class: "legend", "aria-label": "Legend" }, groups, more);
  const open = (is: boolean): void => {
    box.classList.toggle("open", is);
    more.setAttribute("aria-expanded", String(is));
    more.textContent = is ? "One line" : "All colours";
  };
  const update = (): void => {
    const all = (entries: (recording: Recording, dark: boolean) => Entry[]): Entry[] => merged(views.flatMap(({ recording, theme }) => entries(recording, theme.dark)));
    const group = (title: string, entries: Entry[]): HTMLElement | false =>
      entries.length > 0 && h("div", { class: "legend-group" }, h("strong", {}, title), ...entries.map(({ colour, name, meaning, kind, rare }) => h("span", { title: meaning, class: rare ? "rare" : undefined }, swatch(colour, name, kind))));
    const rows = groupBy(of.map(rowColours), ({ title }) => title);
    const shown = [...rows].map(([title, parts]) => group(title, merged(parts.flatMap(({ entries }) => entries))));
    fill(groups, group("Account", all((recording, dark) => classes(recording, dark, false))), group("Threads", [...all(states), ...all(kinds), ...all(lost)]), group("Plan", all(planned)), ...shown);
  };
  update();
  for (const view of views) {
    view.themeChanged.on(update);
    view.runningByChanged.on(update);
  }
  return box;
}

/** The account's classes as the glossary defines them, in the order of the stack; a class that it lacks has the writer's words. */
function definedClasses({ recording, theme }: ViewState): Entry[] {
  const keys = new Map(recording.index.account?.classes.map(([key, name]) => [name, key]));
  return classes(recording, theme.dark, true).map((entry) => ({ ...entry, meaning: classDefinition(keys.get(entry.name) ?? "") ?? entry.meaning }));
}

/** Every colour with its definition, for the help. */
export function colourMeanings(state: ViewState): HTMLElement {
  const { recording, theme } = state;
  const table = (title: string, entries: Entry[], wide = false): HTMLElement | false =>
    entries.length > 0 &&
    h("section", { class: wide ? "wide" : undefined }, h("h3", {}, title), h("table", {}, h("tbody", {}, ...entries.map(({ colour, name, meaning, kind }) => h("tr", {}, h("th", { scope: "row" }, swatch(colour, name, kind)), h("td", {}, meaning))))));
  return h(
    "div",
    { class: "key-groups" },
    table(`The account: ${GLOSSARY[0]!.head}`, definedClasses(state), true),
    table("Threads: what the scheduler did", states(recording, theme.dark)),
    table("Slices: waits and locks", kinds(recording, theme.dark)),
    table("Plan: when the task started", planned(recording, theme.dark)),
    table("Flame graph: the code that ran or waited", code(recording, theme.dark)),
    table("Both", lost(recording, theme.dark)),
  );
}

/** The terms of the report that have no colour. */
export function termMeanings(): HTMLElement {
  const sections = GLOSSARY.filter(({ terms }) => terms.some(({ key }) => key === ""));
  const rows = (section: Section): HTMLElement[] => section.terms.map(({ name, meaning }) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, meaning)));
  return h("div", { class: "key-groups" }, ...sections.map((section) => h("section", {}, h("h3", {}, section.title), h("table", {}, h("tbody", {}, ...rows(section))))));
}
