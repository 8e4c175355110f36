// base64 and deflate, both by the browser.

/** Decodes base64; `Uint8Array.fromBase64` where there is one, it is several times faster. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Inflates raw deflate; `size` is the undeflated length when known, which saves a copy. */
export async function inflate(bytes: Uint8Array<ArrayBuffer>, size = 0): Promise<Uint8Array> {
  const stream = new DecompressionStream("deflate-raw");
  const writer = stream.writable.getWriter();
  // A failure shows up at the reader too, which is where it is handled.
  writer.write(bytes).catch(() => undefined);
  writer.close().catch(() => undefined);
  const reader = stream.readable.getReader();
  // With the right size nothing is copied twice; without one the buffer doubles, as growing arrays do.
  let out = new Uint8Array(size);
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return out.subarray(0, at);
    if (at + value.length > out.length) {
      const grown = new Uint8Array(Math.max(2 * out.length, at + value.length));
      grown.set(out.subarray(0, at));
      out = grown;
    }
    out.set(value, at);
    at += value.length;
  }
}
