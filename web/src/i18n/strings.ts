import { language } from "./language.ts";

/** A text, a function that returns a text, or a group of them. */
export interface Words {
  readonly [name: string]: string | ((...blanks: never[]) => string) | Words;
}

/** The type of a translation: the same names and the same parameters. */
export type Translated<T> = {
  readonly [Name in keyof T]: T[Name] extends string
    ? string
    : T[Name] extends (...blanks: infer Blanks) => string
      ? (...blanks: Blanks) => string
      : Translated<T[Name]>;
};

/** Defines texts in both languages. The result returns those of the current language. */
export function defineStrings<T extends Words>(en: T, zh: Translated<T>): () => Translated<T> {
  return () => (language.value === "zh" ? zh : (en as unknown as Translated<T>));
}
