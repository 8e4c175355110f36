// A recording that is in the page: the text of its tags, also of those that are still being parsed.
import type { Index } from "./index";
import { fromBase64, inflate } from "./inflate";
import { parseIndex, type Packed, type Source } from "./source";

/** Of the tags whose ids begin with `prefix`. */
export class Tags implements Source {
  /** Tag, offset, characters, undeflated bytes of each block. */
  private blocks: number[] = [];

  constructor(private readonly prefix: string) {}

  async index(): Promise<Index> {
    const text = document.getElementById(`${this.prefix}-index`)?.textContent;
    if (!text) throw new Error("the file holds no recording");
    const index = parseIndex(await inflate(fromBase64(text)));
    this.blocks = index.blocks;
    return index;
  }

  async block(b: number): Promise<Packed> {
    const [tag, offset, length, raw] = this.blocks.slice(4 * b, 4 * b + 4) as [number, number, number, number];
    return { text: await this.text(tag, offset, length), raw };
  }

  /**
   * Characters `[from, from + length)` of a data tag; those behind the viewer's code are there when the page is parsed.
   * The parser cuts text into nodes of 65 536 characters: taking the few that are wanted copies no megabytes.
   */
  private async text(tag: number, from: number, length: number): Promise<string> {
    const find = (): Element | null => document.getElementById(`${this.prefix}-${tag}`);
    let element = find();
    // A tag that is being parsed has only part of its text: it is whole when something follows it. Waiting for the tag
    // rather than for the page lets workers decode what is wanted while the rest is still being parsed.
    while (!element?.nextSibling && document.readyState === "loading") {
      await new Promise((resolve) => setTimeout(resolve, 10));
      element = find();
    }
    if (!element) throw new Error(`part ${tag} of the file is missing: it was cut short`);
    let text = "";
    let at = 0;
    for (const node of element.childNodes) {
      const data = (node as Text).data;
      if (at + data.length > from) text += data.slice(Math.max(0, from - at), from + length - at);
      at += data.length;
      if (at >= from + length) break;
    }
    return text;
  }
}
