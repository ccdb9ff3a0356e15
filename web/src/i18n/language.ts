import { Store } from "../state/store.ts";

export type Language = "en" | "zh";

const KEY = "antiphon.language";

/** The language that all pages speak; changing it renders every element anew. */
export const language = new Store<Language>(remembered() ?? preferred());

function remembered(): Language | null {
  const text = localStorage.getItem(KEY);
  return text === "en" || text === "zh" ? text : null;
}

function preferred(): Language {
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** What the server would rather speak; a choice that was made here goes before. */
export function suggest(wish: Language): void {
  if (remembered() === null) language.set(wish);
}

/** Remember a choice. */
export function choose(wish: Language): void {
  localStorage.setItem(KEY, wish);
  language.set(wish);
}

/** The tag for `lang` and for `Intl`. */
export function tag(): string {
  return language.value === "zh" ? "zh-CN" : "en";
}
