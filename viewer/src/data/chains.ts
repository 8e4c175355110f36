// What a thread waits for at an instant: the thread that will end its wait, what that one does then, and so on.
import { cell, StateColumn } from "./columns";
import { linesOf, stateDetails } from "./details";
import { Kind, State } from "./index";
import { itemAt, type Item } from "./query";
import type { Recording } from "./recording";

/** Most threads of a chain. */
const MOST = 8;

/** What a thread of a chain does at the instant; the last of them is no wait, or the chain is longer. */
export interface Link {
  /** Row of the thread; -1: an interrupt (a timer, a device, the network) ended the wait before, or it is not known who did. */
  thread: number;
  /**
   * `waited`: the next link says for what. `process`: it belongs to another program, where chains end. `unborn`: it began later. `nobody`: there is no thread.
   * `endless`: the wait before did not end in this recording.
   */
  did: "waited" | "ran" | "ready" | "process" | "unborn" | "nobody" | "endless";
  /** Its state then. */
  state: Item | undefined;
}

/**
 * The chain behind the wait that `item`, a blocked state, is a part of, at the instant `t` in it. As in the analysis, a wait is followed to the thread
 * that woke the waiting one at its end; that wait ends later than those that it is followed to, so no chain is endless.
 */
export async function chainAt(recording: Recording, item: Item, t: number): Promise<Link[]> {
  const links: Link[] = [];
  let wait: Item | undefined = item;
  while (wait !== undefined && links.length < MOST) {
    const link: Link = await endedBy(recording, wait, t);
    links.push(link);
    wait = link.did === "waited" ? link.state : undefined;
  }
  return links;
}

export function isBlocked(state: number): boolean {
  return state === State.Sleeping || state === State.Disk || state === State.Stopped;
}

/** Who ends the wait, and what that thread does at `t`. */
async function endedBy(recording: Recording, wait: Item, t: number): Promise<Link> {
  let { next } = await stateDetails(recording, wait);
  // Asleep, then in uninterruptible sleep: one wait.
  while (next && isBlocked(next.value)) ({ next } = await stateDetails(recording, next));
  if (!next) return { thread: -1, did: "endless", state: undefined };
  const thread = next.value === State.Woken ? cell(next.unit, StateColumn.By, next.i) - 1 : -1;
  const row = recording.index.threads[thread];
  if (!row || thread === wait.line.owner) return { thread: -1, did: "nobody", state: undefined };
  if (!recording.index.processes[row.process]?.target) return { thread, did: "process", state: undefined };
  const [line] = linesOf(recording, Kind.State, thread);
  const state = line && (await itemAt(recording, line, t));
  return { thread, did: didIn(state?.value), state };
}

function didIn(state: number | undefined): Link["did"] {
  if (state === State.Running) return "ran";
  if (state === State.Woken || state === State.Preempted) return "ready";
  return state !== undefined && isBlocked(state) ? "waited" : "unborn";
}
