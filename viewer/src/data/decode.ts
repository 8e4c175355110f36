// From a block to items and levels. Pure: the same code runs in the page, in a worker and in a test.
import { decodeUnit, partAt, type Unit } from "./columns";
import type { Kind } from "./index";
import { fromBase64, inflate } from "./inflate";
import { decodeTile, type Tile } from "./lod";
import type { Packed } from "./source";

/** A unit or a tile of a block: the kind of its line, and its number in the block. */
export interface Part {
  kind: Kind;
  part: number;
}

/** What can be asked of a block. */
export interface Decoder {
  bytes(packed: Packed): Promise<Uint8Array>;
  units(packed: Packed, parts: Part[]): Promise<Unit[]>;
  tiles(packed: Packed, parts: Part[]): Promise<Tile[]>;
}

async function open(packed: Packed): Promise<Uint8Array> {
  return packed instanceof Uint8Array ? packed : inflate(fromBase64(packed.text), packed.raw);
}

/** Decodes where it is called. */
export const here: Decoder = {
  bytes: open,
  units: async (packed, parts) => {
    const block = await open(packed);
    return parts.map(({ kind, part }) => decodeUnit(kind, block, partAt(block, part)));
  },
  tiles: async (packed, parts) => {
    const block = await open(packed);
    return parts.map(({ kind, part }) => decodeTile(block, partAt(block, part), kind));
  },
};
