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
