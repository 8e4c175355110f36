// The value of an item that has a name: the name's number and, in the low four bits, the kind of slice.
// Lines without names (states, CPUs, locks, the account) store their value as it is.

/** Kinds take the low four bits; the names' numbers stay below 2^27, so that a value is a small integer to the engine. */
export const KIND_BITS = 4;

export function encodeNamed(name: number, kind: number): number {
  return (name << KIND_BITS) | kind;
}

export function nameOf(value: number): number {
  return value >> KIND_BITS;
}

export function kindOf(value: number): number {
  return value & ((1 << KIND_BITS) - 1);
}
