import { language } from "./language.ts";

/** A text, a text with blanks, or a group of them. */
export interface Words {
  readonly [name: string]: string | ((...blanks: never[]) => string) | Words;
}

/** The same names with texts of the same blanks: what another language must have. */
export type Translated<T> = {
  readonly [Name in keyof T]: T[Name] extends string
    ? string
    : T[Name] extends (...blanks: infer Blanks) => string
      ? (...blanks: Blanks) => string
      : Translated<T[Name]>;
};

/** Texts in both languages; the result gives those of the language that is chosen now. */
export function defineStrings<T extends Words>(en: T, zh: Translated<T>): () => Translated<T> {
  return () => (language.value === "zh" ? zh : (en as unknown as Translated<T>));
}
