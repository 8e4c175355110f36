// The program's own arrows, read when first wanted.
import { columnBytes, numbers, words } from "./columns";
import type { UnitRow } from "./index";
import type { Recording } from "./recording";
import { MAX_ARROWS, type Arrow } from "./arrow";

/** Decoded columns of one unit: times in ns on the file's axis; threads stored plus one, 0 is unknown. */
interface FlowUnit {
  from: Float64Array;
  to: Float64Array;
  fromThread: Uint32Array;
  toThread: Uint32Array;
}

/** Units of flows are read when their time is first in view. */
export class Flows {
  private readonly units: (FlowUnit | "coming" | undefined)[];

  constructor(private readonly recording: Recording) {
    this.units = recording.index.flows.map(() => undefined);
  }

  /** Adds the flows that touch `[t0, t1]`, of `thread` or of all; `later` is called when more has been read. */
  between(t0: number, t1: number, out: Arrow[], later: () => void, thread?: number): void {
    this.recording.index.flows.forEach((row, u) => {
      // Units are in the order of their flows' beginnings: this one and all later ones begin after the view.
      if (row[3] > t1) return;
      const unit = this.units[u];
      if (unit === undefined) void this.load(row, u).then(later, console.error);
      if (unit === undefined || unit === "coming") return;
      for (let i = 0; i < unit.from.length && out.length <= MAX_ARROWS; i++) {
        if (unit.from[i]! > t1 || unit.to[i]! < t0) continue;
        // From here on -1 is unknown.
        const [fromThread, toThread] = [unit.fromThread[i]! - 1, unit.toThread[i]! - 1];
        if (thread !== undefined && thread !== fromThread && thread !== toThread) continue;
        out.push({ fromThread, toThread, from: unit.from[i]!, to: unit.to[i]!, kind: "flow", strong: false });
      }
    });
  }

  /** Decodes unit `u`. Its six columns: id, name, time and thread of the beginning, time and thread of the end. */
  private async load([block, part, n]: UnitRow, u: number): Promise<void> {
    this.units[u] = "coming";
    const { bytes, offset } = await this.recording.part(block, part);
    const at: number[] = [];
    for (let c = 0, next = offset; c < 6; c++) {
      at.push(next);
      next += columnBytes(bytes, next, n);
    }
    this.units[u] = {
      from: numbers(bytes, at[2]!, n),
      fromThread: words(bytes, at[3]!, n),
      to: numbers(bytes, at[4]!, n),
      toThread: words(bytes, at[5]!, n),
    };
  }
}
