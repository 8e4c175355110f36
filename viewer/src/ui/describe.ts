// Items in words.
import { cell, CounterColumn, float, SpanColumn, StateColumn } from "../data/columns";
import { Kind, SLICE_KINDS, STATE_NAMES } from "../data/index";
import type { Item } from "../data/query";
import type { Line, Recording } from "../data/recording";
import { kindOf, nameOf } from "../data/value";
import { threadName } from "../draw/scene";

/** A thread's name with its id: names are shared, ids are not. */
export function threadLabel(recording: Recording, t: number): string {
  const thread = recording.index.threads[t];
  if (!thread) return "nobody known";
  return `${threadName(recording, t)} (${thread.tid})`;
}

/** A lock's name where the program gave one, else its address. */
export function lockName(recording: Recording, l: number): string {
  const lock = recording.index.locks[l];
  return lock ? recording.text(lock.name) || lock.object : "?";
}

/** Whose line it is. */
export function ownerLabel(recording: Recording, line: Line): string {
  switch (line.kind) {
    case Kind.Cpu:
    case Kind.Irq:
    case Kind.Softirq:
      return `CPU ${line.owner}`;
    case Kind.Counter:
      return recording.text(recording.index.counters[line.owner]?.name ?? -1);
    case Kind.Lock:
      return `lock ${lockName(recording, line.owner)}`;
    default:
      return threadLabel(recording, line.owner);
  }
}

/** What an item is called: a slice without a name by its kind, an item of a CPU or a lock by its thread. */
export function itemTitle(recording: Recording, item: Item): string {
  const { line, unit, i, value } = item;
  switch (line.kind) {
    case Kind.State: {
      // CPUs, like threads, are stored plus one: -1 is not known.
      const cpu = cell(unit, StateColumn.Cpu, i) - 1;
      const name = STATE_NAMES[value] ?? "?";
      return value === 1 && cpu >= 0 ? `${name} on CPU ${cpu}` : name;
    }
    case Kind.Lock:
      return threadLabel(recording, value - 1);
    case Kind.Cpu:
      return value === 0 ? "unknown" : threadLabel(recording, value - 1);
    case Kind.Counter:
      return `${recording.text(recording.index.counters[line.owner]?.name ?? -1)} = ${float(unit, CounterColumn.Value, i)}`;
    case Kind.Slice:
      return recording.text(nameOf(value)) || (SLICE_KINDS[kindOf(value)] ?? "?");
    default:
      return recording.text(nameOf(value));
  }
}

/** What sort of thing an item is. */
export function itemKind(recording: Recording, item: Item): string {
  switch (item.line.kind) {
    case Kind.Lock:
      return item.line.depth < (recording.index.locks[item.line.owner]?.hold_lanes ?? 0) ? "holds the lock" : "waits for the lock";
    case Kind.State:
      return "thread state";
    case Kind.Cpu:
      return "on CPU";
    case Kind.Slice:
      return SLICE_KINDS[kindOf(item.value)] ?? "slice";
    case Kind.Syscall:
      return "system call";
    case Kind.Irq:
      return "interrupt";
    case Kind.Softirq:
      return "softirq";
    case Kind.Instant:
      return "instant";
    default:
      return "counter value";
  }
}

/**
 * Thread an item belongs to, -1 none. Lines of CPUs and locks name it in the item, those of threads own it, and an interrupt
 * belongs to the thread that it came on top of.
 */
export function itemThread(item: Item): number {
  switch (item.line.kind) {
    case Kind.Cpu:
    case Kind.Lock:
      return item.value - 1;
    case Kind.Irq:
    case Kind.Softirq:
      return cell(item.unit, SpanColumn.Thread, item.i) - 1;
    case Kind.Counter:
      return -1;
    default:
      return item.line.owner;
  }
}
