// Decoding beside the page. A block of 16 384 items takes 2-6 ms to inflate and decode, and a view may want dozens at
// once: done by the page itself that costs frames (83 ms were seen), done by workers it costs a message each.
// The worker's code travels as text inside the page, so it starts from file:// too, through a blob.
import { here, type Decoder, type Part } from "./decode";
import type { Unit } from "./columns";
import type { Tile } from "./lod";
import type { Packed } from "./source";

/** What a worker can be asked of a block. */
export type Job = { what: "bytes"; packed: Packed } | { what: "units" | "tiles"; packed: Packed; parts: Part[] };
type Answer = Uint8Array | Unit[] | Tile[];

/** Jobs may end in another order than they were sent in; `id` says which of them this answers. */
interface Reply {
  id: number;
  answer?: Answer;
  error?: string;
}

/** What a worker does with a message. */
export async function work(job: Job): Promise<{ answer: Answer; transfer: ArrayBuffer[] }> {
  if (job.what === "bytes") {
    const answer = await here.bytes(job.packed);
    return { answer, transfer: [answer.buffer as ArrayBuffer] };
  }
  if (job.what === "units") {
    const answer = await here.units(job.packed, job.parts);
    // Buffers are handed over, not copied. A Set: units of one block share its bytes, and a buffer may be listed only once.
    const buffers = new Set(answer.flatMap((unit) => [unit.bytes.buffer, unit.start.buffer, unit.end.buffer, unit.value.buffer]));
    return { answer, transfer: [...buffers] as ArrayBuffer[] };
  }
  const answer = await here.tiles(job.packed, job.parts);
  const buffers = answer.flatMap(({ level, half }) => [level, half]).flatMap((level) => [level.value.buffer, level.cover.buffer, level.flags.buffer, level.note.buffer]);
  return { answer, transfer: [...new Set(buffers)] as ArrayBuffer[] };
}

/** The worker's end. */
export function serve(scope: { onmessage: ((event: MessageEvent<Job & { id: number }>) => void) | null; postMessage: (reply: Reply, transfer: Transferable[]) => void }): void {
  scope.onmessage = ({ data }) => {
    work(data).then(
      ({ answer, transfer }) => scope.postMessage({ id: data.id, answer }, transfer),
      (error: unknown) => scope.postMessage({ id: data.id, error: error instanceof Error ? error.message : String(error) }, []),
    );
  };
}

/** The page's end: hands jobs to `workers` in turn. */
class Pool implements Decoder {
  private readonly waiting = new Map<number, { resolve: (answer: Answer) => void; reject: (error: Error) => void }>();
  private next = 0;

  constructor(private readonly workers: Worker[]) {
    for (const worker of workers) {
      worker.onmessage = ({ data }: MessageEvent<Reply>) => {
        const job = this.waiting.get(data.id);
        this.waiting.delete(data.id);
        if (data.answer === undefined) job?.reject(new Error(data.error ?? "no answer"));
        else job?.resolve(data.answer);
      };
    }
  }

  // A worker answers a job with what `work` returns for its kind, hence the casts.
  bytes(packed: Packed): Promise<Uint8Array> {
    return this.ask({ what: "bytes", packed }) as Promise<Uint8Array>;
  }

  units(packed: Packed, parts: Part[]): Promise<Unit[]> {
    return this.ask({ what: "units", packed, parts }) as Promise<Unit[]>;
  }

  tiles(packed: Packed, parts: Part[]): Promise<Tile[]> {
    return this.ask({ what: "tiles", packed, parts }) as Promise<Tile[]>;
  }

  private ask(job: Job): Promise<Answer> {
    const id = this.next++;
    const transfer = job.packed instanceof Uint8Array ? [job.packed.buffer] : [];
    this.workers[id % this.workers.length]!.postMessage({ ...job, id }, transfer);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }
}

/** A decoder that runs `code` in workers; where they cannot be started (a strict page policy), the page decodes itself. */
export function startWorkers(code: string): Decoder {
  try {
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    // One CPU is left to the page. More than three workers wait for the page, which takes their answers one by one.
    const n = Math.max(1, Math.min(3, (navigator.hardwareConcurrency || 2) - 1));
    return new Pool(Array.from({ length: n }, () => new Worker(url)));
  } catch (error) {
    console.info(`kasuri: no worker (${String(error)}); decoding in the page`);
    return here;
  }
}
