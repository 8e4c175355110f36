// The page's address: each chart of the page keeps its view in a part of the fragment.

export class Address {
  private readonly parts = new Map<string, string>();

  constructor() {
    const query = new URLSearchParams(location.hash.replace(/^#/, ""));
    const other = query.get("b");
    query.delete("b");
    this.parts.set("", query.toString());
    if (other !== null) this.parts.set("b", other);
  }

  get(slot: string): string {
    return this.parts.get(slot) ?? "";
  }

  set(slot: string, fragment: string): void {
    this.parts.set(slot, fragment);
    const other = this.parts.get("b");
    history.replaceState(null, "", `#${this.get("")}${other === undefined ? "" : `&b=${encodeURIComponent(other)}`}`);
  }
}
