// Something that happens, and who wants to know: how the parts of the page hear of each other without knowing each other.

export class Signal<T = void> {
  private readonly listeners: ((value: T) => void)[] = [];

  /** Listeners run in the order in which they were added. */
  on(listener: (value: T) => void): void {
    this.listeners.push(listener);
  }

  /** Calls all listeners before it returns: whoever emits has changed its fields before. */
  emit(value: T): void {
    for (const listener of this.listeners) listener(value);
  }
}
