import { Store } from "../state/store.ts";
import type { Field } from "./setting-fields.ts";

// biome-ignore lint/suspicious/noExplicitAny: a field of any type; `Values` finds which
export type Fields = Record<string, Field<any>>;
export type Values<F extends Fields> = { readonly [Name in keyof F]: F[Name]["initial"] };

/**
 * Settings of a page, stored in this browser. Stored values are validated field by field, and an
 * invalid field gets its initial value. Raise `version` when the meaning of a field changes, which
 * discards older values.
 */
export class Settings<F extends Fields> extends Store<Values<F>> {
  readonly #key: string;
  readonly #version: number;
  readonly #fields: F;

  constructor(name: string, version: number, fields: F) {
    super(read(`antiphon.settings.${name}`, version, fields));
    this.#key = `antiphon.settings.${name}`;
    this.#version = version;
    this.#fields = fields;
  }

  /** Updates fields. Invalid values are ignored. */
  update(changes: Partial<Values<F>>): void {
    const values = { ...this.value, ...checked(this.#fields, changes) };
    this.set(values);
    localStorage.setItem(this.#key, JSON.stringify({ version: this.#version, values }));
  }

  /** Restores the initial values. */
  reset(): void {
    localStorage.removeItem(this.#key);
    this.set(initial(this.#fields));
  }
}

function read<F extends Fields>(key: string, version: number, fields: F): Values<F> {
  const stored = parsed(localStorage.getItem(key));
  const fits = stored !== null && stored["version"] === version;
  return { ...initial(fields), ...(fits ? checked(fields, stored["values"]) : {}) };
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

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
