/** Typed events. A listener that throws does not affect other listeners. */
export class TypedEvents<Events extends object> {
  readonly #target = new EventTarget();

  /** Adds a listener. Returns a function that removes it. */
  on<Name extends keyof Events & string>(
    name: Name,
    listener: (detail: Events[Name]) => void,
  ): () => void {
    const handler = (event: Event): void => listener((event as CustomEvent<Events[Name]>).detail);
    this.#target.addEventListener(name, handler);
    return () => this.#target.removeEventListener(name, handler);
  }

  /** For the class that owns the events. */
  protected emit<Name extends keyof Events & string>(name: Name, detail: Events[Name]): void {
    this.#target.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
