// From the text of a block to items and levels. Pure: the same code runs in the page, in a worker and in a test.
import { decodeUnit, type Unit } from "./columns";
import type { Kind } from "./index";
import { fromBase64, inflate } from "./inflate";
import { decodeLevel, pyramid, type Level } from "./lod";

/** A unit of a block. */
export interface UnitPart {
  kind: Kind;
  offset: number;
}

/** A level of `n` buckets in a block; all coarser ones are made from it. */
export interface LevelPart extends UnitPart {
  n: number;
}

/** What can be asked of a block's text (`raw`: its inflated size). */
export interface Decoder {
  bytes(text: string, raw: number): Promise<Uint8Array>;
  units(text: string, raw: number, parts: UnitPart[]): Promise<Unit[]>;
  levels(text: string, raw: number, parts: LevelPart[]): Promise<Level[][]>;
}

const open = (text: string, raw: number): Promise<Uint8Array> => inflate(fromBase64(text), raw);

/** Decodes where it is called. */
export const here: Decoder = {
  bytes: open,
  units: async (text, raw, parts) => {
    const block = await open(text, raw);
    return parts.map(({ kind, offset }) => decodeUnit(kind, block, offset));
  },
  levels: async (text, raw, parts) => {
    const block = await open(text, raw);
    return parts.map(({ kind, offset, n }) => pyramid(decodeLevel(block, offset, n), kind));
  },
};
