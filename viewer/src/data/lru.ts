// What was used last is kept, up to a bound; all of it can be had again.
export class Lru<V> {
  private readonly kept = new Map<number, V>();
  private size = 0;

  /** `limit` is for the sum of the `sizeOf` what is kept. */
  constructor(
    private readonly limit: number,
    private readonly sizeOf: (value: V) => number,
  ) {}

  has(key: number): boolean {
    return this.kept.has(key);
  }

  get(key: number): V | undefined {
    // A Map lists keys as they were added: taking one out and putting it back makes it the most recently used.
    const value = this.kept.get(key);
    if (value !== undefined) {
      this.kept.delete(key);
      this.kept.set(key, value);
    }
    return value;
  }

  /** Keeps a value and forgets the least recently used ones beyond the limit. */
  add(key: number, value: V): void {
    if (this.kept.has(key)) return;
    this.kept.set(key, value);
    this.size += this.sizeOf(value);
    for (const [old, one] of this.kept) {
      if (this.size <= this.limit || old === key) return;
      this.kept.delete(old);
      this.size -= this.sizeOf(one);
    }
  }
}
