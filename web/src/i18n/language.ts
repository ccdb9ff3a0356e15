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
