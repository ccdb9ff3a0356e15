/** Events whose names and details the compiler knows; a listener that throws harms no other. */
export class TypedEvents<Events extends object> {
  readonly #target = new EventTarget();

  /** Listen; call what is returned to stop listening. */
  on<Name extends keyof Events & string>(
    name: Name,
    listener: (detail: Events[Name]) => void,
  ): () => void {
    const handler = (event: Event): void => listener((event as CustomEvent<Events[Name]>).detail);
    this.#target.addEventListener(name, handler);
    return () => this.#target.removeEventListener(name, handler);
  }

  /** For the class that has the events, not for its listeners. */
  protected emit<Name extends keyof Events & string>(name: Name, detail: Events[Name]): void {
    this.#target.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
