// A recording that `kasuri view` serves: the page asks for each part beside its own address, which holds the token.
import type { Index } from "./index";
import { parseIndex, type Packed, type Source } from "./source";

/** ms until a request that failed is tried again: a connection that the server closed in the same moment is no end. */
const AGAIN_MS = 200;

export class Server implements Source {
  private isGone = false;

  /** Of recording `n` of the page. `gone` is called once, when the server does not answer any more. */
  constructor(
    private readonly n: number,
    private readonly gone: () => void,
  ) {}

  async index(): Promise<Index> {
    return parseIndex(await this.get("index"));
  }

  block(b: number): Promise<Packed> {
    return this.get(`block/${b}`);
  }

  private async get(what: string): Promise<Uint8Array<ArrayBuffer>> {
    for (let attempt = 0; !this.isGone; attempt++) {
      try {
        const answer = await fetch(`${this.n}/${what}`);
        if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
        return new Uint8Array(await answer.arrayBuffer());
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        // Nobody answered.
        if (attempt > 0) this.end();
        else await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
    throw new Error("kasuri view has ended");
  }

  private end(): void {
    if (this.isGone) return;
    this.isGone = true;
    this.gone();
  }
}
