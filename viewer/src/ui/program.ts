// The program of a trace that names none: which processes' rows stand first, as the person chooses. Every mark of the page asks the
// index which processes are the program, so the choice is written there. The account is added up before the page is made, of all
// processes as one; for one alone the page names the command.
import type { CandidateRow, Index } from "../data/index";
import { count, duration } from "../view/units";
import { h } from "./dom";
import type { ViewState } from "./state";

/** The processes of a candidate and those that they started, as `--process` takes them. */
function processesOf(index: Index, { name, pids }: CandidateRow): Set<number> {
  const chosen = new Set<number>();
  index.processes.forEach((process, p) => {
    if (name === "" ? pids.includes(process.pid) : index.strings[process.name] === name) chosen.add(p);
  });
  for (let before = -1; before < chosen.size; ) {
    before = chosen.size;
    index.processes.forEach(({ parent }, p) => {
      if (chosen.has(parent)) chosen.add(p);
    });
  }
  return chosen;
}

/** What the address calls a candidate. */
const keyOf = ({ name, pids }: CandidateRow): string => (name === "" ? String(pids[0] ?? "") : name);

/** What a person calls it. */
const labelOf = ({ name, pids, n_processes: n }: CandidateRow): string => `${name === "" ? "no name" : name} ${n === 1 ? `(${pids[0] ?? ""})` : `(${count(n)} processes)`}`;

/** Makes the candidate called `key` the program; "" or an unknown one: all processes. The rows are not arranged here. */
export function setProgram(state: ViewState, key: string): void {
  const { index } = state.recording;
  const candidate = index.candidates?.find((row) => keyOf(row) === key);
  if (!index.candidates || (key !== "" && !candidate)) return;
  const chosen = candidate && processesOf(index, candidate);
  index.processes.forEach((process, p) => (process.target = chosen?.has(p) ?? true));
  state.choices.program = candidate && keyOf(candidate);
  state.recolour();
  state.programChanged.emit();
}

/** The choice, above the chart; nothing where the recording names its program. */
export function programBox(state: ViewState, arrange: () => void): HTMLElement | false {
  const { candidates, processes } = state.recording.index;
  if (!candidates || candidates.length === 0) return false;
  const option = (value: string, text: string): HTMLElement => h("option", { value }, text);
  const text = (row: CandidateRow): string => (row.on_cpu_ns === null ? labelOf(row) : `${labelOf(row)}, ${duration(row.on_cpu_ns)} on CPUs`);
  const box = h(
    "select",
    {
      class: "program",
      "aria-label": "the program: whose rows stand first",
      title: "The trace names no program: choose whose rows stand first, the busiest come first here",
      onchange: () => {
        setProgram(state, box.value);
        arrange();
      },
    },
    option("", `All ${count(processes.length)} processes`),
    ...candidates.map((row) => option(keyOf(row), text(row))),
  );
  const update = (): void => void (box.value = state.choices.program ?? "");
  update();
  state.programChanged.on(update);
  return box;
}

/** What the sums of the page are about, and the command for those of one program. */
export function programNote({ recording, choices }: ViewState): HTMLElement | false {
  const { candidates, processes } = recording.index;
  const row = candidates?.find((row) => keyOf(row) === choices.program) ?? candidates?.[0];
  if (!row) return false;
  const all = `The trace names no program: the account and the headline count all ${count(processes.length)} processes as one.`;
  const one = choices.program === undefined ? `This command makes a page with those of one alone, such as ${labelOf(row)}:` : `This command makes a page with those of ${labelOf(row)} alone:`;
  return h("div", { class: "which-program" }, h("p", {}, `${all} ${one}`), h("pre", {}, row.command));
}
