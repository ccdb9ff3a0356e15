import { Store } from "../state/store.ts";

export type Language = "en" | "zh";

const KEY = "antiphon.language";

/** The language of all pages. A change renders every element again. */
export const language = new Store<Language>(stored() ?? preferred());

function stored(): Language | null {
  const text = localStorage.getItem(KEY);
  return text === "en" || text === "zh" ? text : null;
}

function preferred(): Language {
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** Sets the server's preferred language unless the user has selected one. */
export function suggest(chosen: Language): void {
  if (stored() === null) language.set(chosen);
}

/** Stores the user's selection. */
export function choose(chosen: Language): void {
  localStorage.setItem(KEY, chosen);
  language.set(chosen);
}

/** Returns the language tag for `lang` and `Intl`. */
export function tag(): string {
  return language.value === "zh" ? "zh-CN" : "en";
}

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
