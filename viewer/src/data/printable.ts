// Names come from the recorded program: what is shown must not change how the text beside it reads.

/** Unicode's marks, embeddings, overrides and isolates of direction; the same as `steers` in crates/text/src/table/units.rs. */
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The text with what changes its direction replaced. */
export function printable(text: string): string {
  return text.replace(TURNS, "\ufffd");
}
