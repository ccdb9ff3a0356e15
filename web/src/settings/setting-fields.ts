/** One setting: what it is when nothing was chosen, and what may be kept. */
export interface Field<T> {
  readonly initial: T;
  /** The value if it may be kept, mended if that is sensible; undefined if not. */
  readonly accept: (value: unknown) => T | undefined;
}

export function flag(initial: boolean): Field<boolean> {
  return { initial, accept: (value) => (typeof value === "boolean" ? value : undefined) };
}

/** A number within its bounds; beyond them the nearest bound. */
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

/** A text of at most so many characters. */
export function text(initial: string, longest: number): Field<string> {
  const accept = (value: unknown) =>
    typeof value === "string" && value.length <= longest ? value : undefined;
  return { initial, accept };
}

/** A text, or null where nothing is chosen. */
export function optional(longest: number): Field<string | null> {
  const accept = (value: unknown) =>
    value === null || (typeof value === "string" && value.length <= longest) ? value : undefined;
  return { initial: null, accept };
}

/** Some texts of at most so many characters together, or null where nothing was written. */
export function textList(longest: number): Field<readonly string[] | null> {
  const accept = (value: unknown) => {
    if (value === null) return null;
    if (!Array.isArray(value) || !value.every((one) => typeof one === "string")) return undefined;
    return value.join("").length <= longest ? (value as string[]) : undefined;
  };
  return { initial: null, accept };
}

/** As the field, or null where nothing is chosen. */
export function orNull<T>(field: Field<T>): Field<T | null> {
  return { initial: null, accept: (value) => (value === null ? null : field.accept(value)) };
}
