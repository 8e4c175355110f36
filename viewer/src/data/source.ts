// Where a recording's parts come from: the page's own tags (tags.ts), the server that sent the page (server.ts), or a test.
import type { Index } from "./index";
import { printable } from "./printable";

/** A block as it comes: base64 of deflate, with its inflated size, or its bytes themselves. */
export type Packed = { text: string; raw: number } | Uint8Array<ArrayBuffer>;

export interface Source {
  index(): Promise<Index>;
  block(b: number): Promise<Packed>;
}

/** The index behind `bytes`, whose names are a stranger's. */
export function parseIndex(bytes: Uint8Array): Index {
  return JSON.parse(printable(new TextDecoder().decode(bytes))) as Index;
}
