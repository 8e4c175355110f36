// The code behind the account: for each instant of each CPU the path that explains its class best, as `kasuri flame --loss` adds it up.
import type { CallPaths } from "./call-paths";
import { columnBytes, numbers, words } from "./columns";
import type { CodeTimes } from "./flame";
import { overlap, partition } from "./query";
import type { Recording } from "./recording";

/** `code` of a piece without code, and of one that no sample stands for; of others 2 + 2 x path, + 1 when the path is whole. */
export const WITHOUT_CODE = 0;
export const UNSAMPLED = 1;

/** The pieces of one CPU, in order of time, ns on the file's axis. */
export interface CpuPieces {
  cpu: number;
  begin: Float64Array;
  end: Float64Array;
  /** Number of the class in the index's account. */
  of: Uint8Array;
  code: Uint32Array;
}

/** What is asked for: the time of a class on some CPUs (undefined: all), in spans in order and without overlaps. */
export interface LossQuery {
  loss: number;
  cpus: ReadonlySet<number> | undefined;
  spans: readonly (readonly [number, number])[];
}

/** Reads the table when it is first asked for, and only once. */
export class PieceTable {
  private coming: Promise<CpuPieces[]> | undefined;

  constructor(private readonly recording: Recording) {}

  get exists(): boolean {
    return (this.recording.index.call_paths?.pieces.length ?? 0) > 0;
  }

  read(): Promise<CpuPieces[]> {
    return (this.coming ??= readAll(this.recording));
  }
}

async function readAll(recording: Recording): Promise<CpuPieces[]> {
  const units = recording.index.call_paths?.pieces ?? [];
  const sizes = new Map<number, number>();
  for (const [cpu, , , n] of units) sizes.set(cpu, (sizes.get(cpu) ?? 0) + n);
  const found = new Map<number, CpuPieces>([...sizes].map(([cpu, n]) => [cpu, { cpu, begin: new Float64Array(n), end: new Float64Array(n), of: new Uint8Array(n), code: new Uint32Array(n) }]));
  const filled = new Map<number, number>();
  for (const [cpu, block, part, n, begun] of units) {
    const { bytes, offset } = await recording.part(block, part);
    const at: number[] = [];
    for (let c = 0, next = offset; c < 4; c++) {
      at.push(next);
      next += columnBytes(bytes, next, n);
    }
    const [gap, length] = [numbers(bytes, at[0]!, n), numbers(bytes, at[1]!, n)];
    const pieces = found.get(cpu)!;
    const from = filled.get(cpu) ?? 0;
    filled.set(cpu, from + n);
    pieces.of.set(words(bytes, at[2]!, n), from);
    pieces.code.set(words(bytes, at[3]!, n), from);
    for (let i = 0, now = begun; i < n; i++) {
      pieces.begin[from + i] = now += gap[i]!;
      pieces.end[from + i] = now += length[i]!;
    }
  }
  return [...found.values()];
}

/** The time of a class by path. All of it is in `times.running`, whether a path ran or waited, and `without` is ns that no code was there for. */
export interface LossTimes {
  times: CodeTimes;
  without: number;
}

/** Adds up the time of a class: its sums are those of the account, to the nanosecond. */
export function addUpLoss({ frame }: CallPaths, all: readonly CpuPieces[], { loss, cpus, spans }: LossQuery): LossTimes {
  const running = new Float64Array(frame.length);
  let [without, unsampled, complete, incomplete] = [0, 0, 0, 0];
  for (const { cpu, begin, end, of, code } of all) {
    if (cpus && !cpus.has(cpu)) continue;
    for (const [t0, t1] of spans) {
      const from = partition(end.length, (i) => end[i]! <= t0);
      for (let i = from; i < begin.length && begin[i]! < t1; i++) {
        if (of[i] !== loss) continue;
        const ns = overlap(begin[i]!, end[i]!, t0, t1);
        if (code[i] === WITHOUT_CODE) without += ns;
        else if (code[i] === UNSAMPLED) unsampled += ns;
        else {
          running[(code[i]! - 2) >>> 1]! += ns;
          if ((code[i]! & 1) !== 0) complete += ns;
          else incomplete += ns;
        }
      }
    }
  }
  return {
    times: { running, waiting: new Float64Array(frame.length), runningLost: 0, waitingLost: 0, runningUnsampled: unsampled, waitingUnsampled: 0, runningSamples: 0, samples: 0, complete, incomplete, runningComplete: complete },
    without,
  };
}
