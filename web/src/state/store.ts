import type { ReactiveController, ReactiveControllerHost } from "lit";

/** An observable value. */
export class Store<T> {
  #value: T;
  readonly #listeners = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const listener of [...this.#listeners]) listener(value);
  }

  /** Returns a function that unsubscribes. */
  subscribe(listener: (value: T) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Renders its host when a store changes: `#menu = new StoreController(this, menu)`. */
export class StoreController<T> implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #store: Store<T>;
  #unsubscribe: () => void = () => undefined;

  constructor(host: ReactiveControllerHost, store: Store<T>) {
    this.#host = host;
    this.#store = store;
    host.addController(this);
  }

  get value(): T {
    return this.#store.value;
  }

  hostConnected(): void {
    this.#unsubscribe = this.#store.subscribe(() => this.#host.requestUpdate());
  }

  hostDisconnected(): void {
    this.#unsubscribe();
  }
}

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
