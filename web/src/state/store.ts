import { localValues } from "../storage/browser-values.ts";

/** An observable value. A listener that throws does not affect other listeners. */
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
    for (const listener of [...this.#listeners]) {
      try {
        listener(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error; // reported as an uncaught error
        });
      }
    }
  }

  /** Returns a function that unsubscribes. */
  subscribe(listener: (value: T) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** An element of Lit. Its types would be needed by programs that use the sessions without elements. */
interface Host {
  addController(controller: { hostConnected(): void; hostDisconnected(): void }): void;
  requestUpdate(): void;
}

/** Renders its host when a store changes: `#menu = new StoreController(this, menu)`. */
export class StoreController<T> {
  readonly #host: Host;
  readonly #store: Store<T>;
  #unsubscribe: () => void = () => undefined;

  constructor(host: Host, store: Store<T>) {
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

// biome-ignore lint/suspicious/noExplicitAny: a field of any type; `Values` finds which
export type Fields = Record<string, Field<any>>;
export type Values<F extends Fields> = { readonly [Name in keyof F]: F[Name]["initial"] };

/**
 * Settings of a page, stored in this browser. Stored values are validated field by field, and an
 * invalid field gets its initial value. Raise `version` when the meaning of a field changes, which
 * discards older values.
 *
 * `owner` names the field that the others belong to, such as the texts of a preset: a tab keeps its
 * own values, and replaces those that another tab has stored for another value of it.
 */
export class Settings<F extends Fields> extends Store<Values<F>> {
  readonly #key: string;
  readonly #version: number;
  readonly #fields: F;
  readonly #owner: (keyof F & string) | undefined;

  constructor(name: string, version: number, fields: F, owner?: keyof F & string) {
    super(read(`antiphon.settings.${name}`, version, fields));
    this.#key = `antiphon.settings.${name}`;
    this.#version = version;
    this.#fields = fields;
    this.#owner = owner;
    if (owner) return;
    // A program without a browser has no events of its storage.
    globalThis.addEventListener?.("storage", ({ key }) => {
      if (key === this.#key) this.set({ ...this.value, ...this.#stored });
    });
  }

  /** What this tab or another one has stored. */
  get #stored(): Partial<Values<F>> {
    return stored(this.#key, this.#version, this.#fields);
  }

  /** Updates fields. Invalid values are ignored. Other fields keep what another tab has stored. */
  update(changes: Partial<Values<F>>): void {
    const changed = checked(this.#fields, changes);
    const others = this.#stored;
    const owner = this.#owner;
    const isOther = owner && others[owner] !== this.value[owner];
    const values = { ...this.value, ...(isOther ? {} : others), ...changed };
    this.set(owner ? { ...this.value, ...changed } : values);
    localValues.set(this.#key, JSON.stringify({ version: this.#version, values }));
  }

  /** The values of the fields, except those of `kept`, that differ from their initial values. */
  changed(kept: Iterable<string>): Partial<Values<F>> {
    const others = new Set(kept);
    const start: Readonly<Record<string, unknown>> = initial(this.#fields);
    const changes = Object.entries(this.value).filter(
      ([name, value]) => !others.has(name) && value !== start[name],
    );
    return Object.fromEntries(changes) as Partial<Values<F>>;
  }

  /** Restores the initial values of `names`. */
  reset(names: Iterable<string>): void {
    const some = new Set(names);
    const start = Object.entries(initial(this.#fields)).filter(([name]) => some.has(name));
    this.update(Object.fromEntries(start) as Partial<Values<F>>);
  }
}

function read<F extends Fields>(key: string, version: number, fields: F): Values<F> {
  return { ...initial(fields), ...stored(key, version, fields) };
}

function stored<F extends Fields>(key: string, version: number, fields: F): Partial<Values<F>> {
  const found = parsed(localValues.get(key));
  return found?.["version"] === version ? checked(fields, found["values"]) : {};
}

function initial<F extends Fields>(fields: F): Values<F> {
  const pairs = Object.entries(fields).map(([name, field]) => [name, field.initial]);
  return Object.fromEntries(pairs) as Values<F>;
}

function checked<F extends Fields>(fields: F, values: unknown): Partial<Values<F>> {
  const given = isRecord(values) ? values : {};
  const pairs = Object.entries(fields)
    .map(([name, field]) => [name, field.accept(given[name])] as const)
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(pairs) as Partial<Values<F>>;
}

function parsed(text: string | null): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text ?? "null");
    return isRecord(value) ? value : null;
  } catch {
    return null; // not written by this page
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** A setting: its initial value and its validation. */
export interface Field<T> {
  readonly initial: T;
  /** Returns the valid value, corrected if possible, or undefined. */
  readonly accept: (value: unknown) => T | undefined;
}

export function flag(initial: boolean): Field<boolean> {
  return { initial, accept: (value) => (typeof value === "boolean" ? value : undefined) };
}

/** A number, limited to its bounds. */
export function range(initial: number, min: number, max: number): Field<number> {
  const accept = (value: unknown) =>
    typeof value === "number" && Number.isFinite(value)
      ? Math.min(max, Math.max(min, value))
      : undefined;
  return { initial, accept };
}

export function choice<const T extends string>(initial: T, all: readonly T[]): Field<T> {
  return { initial, accept: (value) => all.find((one) => one === value) };
}

/** A text with a maximum length. */
export function text(initial: string, longest: number): Field<string> {
  const accept = (value: unknown) =>
    typeof value === "string" && value.length <= longest ? value : undefined;
  return { initial, accept };
}

/** A text, or null if nothing is selected. */
export function optional(longest: number): Field<string | null> {
  const accept = (value: unknown) =>
    value === null || (typeof value === "string" && value.length <= longest) ? value : undefined;
  return { initial: null, accept };
}

/** Texts with a maximum total length, or null if none was entered. */
export function textList(longest: number): Field<readonly string[] | null> {
  const accept = (value: unknown) => {
    if (value === null) return null;
    if (!Array.isArray(value) || !value.every((one) => typeof one === "string")) return undefined;
    return value.join("").length <= longest ? (value as string[]) : undefined;
  };
  return { initial: null, accept };
}

/** Like the field, or null if nothing is selected. */
export function orNull<T>(field: Field<T>): Field<T | null> {
  return { initial: null, accept: (value) => (value === null ? null : field.accept(value)) };
}
