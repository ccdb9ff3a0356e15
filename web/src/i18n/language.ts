import { Store } from "../state/store.ts";
import { localValues } from "../storage/browser-values.ts";

type Language = "en" | "zh";

const KEY = "antiphon.language";

/** The language of all pages. A change renders every element again. */
export const language = new Store<Language>(stored() ?? preferred());

function stored(): Language | null {
  const text = localValues.get(KEY);
  return text === "en" || text === "zh" ? text : null;
}

function preferred(): Language {
  const [first = ""] = [navigator.language, ...(navigator.languages ?? [])].filter(Boolean);
  return first.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** Sets the server's preferred language unless the user has selected one. */
export function suggest(chosen: Language): void {
  if (stored() === null) language.set(chosen);
}

/** Stores the user's selection. */
export function choose(chosen: Language): void {
  localValues.set(KEY, chosen);
  language.set(chosen);
}

/** Returns the language tag for `lang` and `Intl`. */
export function tag(): string {
  return language.value === "zh" ? "zh-CN" : "en";
}

/** Name of a language or of one of its variants, such as “British English”. */
export function languageName(code: string): string {
  return new Intl.DisplayNames(tag(), { type: "language" }).of(code) ?? code;
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

/** Seconds as `0:07`, `12:05` or `1:02:03`. */
export function formatClock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [
    Math.floor(whole / 3600),
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  const tail = `${hours > 0 ? String(minutes).padStart(2, "0") : minutes}:${String(rest).padStart(2, "0")}`;
  return hours > 0 ? `${hours}:${tail}` : tail;
}

/** `3.2 s`, `480 ms`. */
export function formatDuration(ms: number): string {
  return ms < 1000 ? unit(ms, "ms", 0) : unit(ms / 1000, "s", 1);
}

/** `0.8 s`, always in seconds. */
export function formatSeconds(value: number): string {
  return unit(value, "s", 1);
}

/** A number in the format of the selected language. */
export function formatNumber(value: number, digits = 0): string {
  return numberFormat({ maximumFractionDigits: digits }).format(value);
}

/** `48 kB`, `3.2 MB`. */
export function formatBytes(count: number): string {
  return count < 1e6 ? `${formatNumber(count / 1e3)} kB` : `${formatNumber(count / 1e6, 1)} MB`;
}

/** Short date and time. */
export function formatDateTime(when: string | number | Date): string {
  const style = { dateStyle: "medium", timeStyle: "short" } as const;
  return new Intl.DateTimeFormat(tag(), style).format(new Date(when));
}

/** Short time of day, for what is not older than a day. */
export function formatTime(when: number): string {
  return new Intl.DateTimeFormat(tag(), { timeStyle: "short" }).format(when);
}

const UNITS = { en: { ms: "ms", s: "s" }, zh: { ms: "毫秒", s: "秒" } } as const;

/** Not with the units of `Intl`: those are "ms" and "sec" in English. */
function unit(value: number, name: "ms" | "s", digits: number): string {
  return `${formatNumber(value, digits)} ${UNITS[language.value][name]}`;
}

const formats = new Map<string, Intl.NumberFormat>();

/** Kept, because a new one costs more than all that it formats. */
function numberFormat(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = `${tag()} ${Object.values(options).join(" ")}`;
  const format = formats.get(key) ?? new Intl.NumberFormat(tag(), options);
  formats.set(key, format);
  return format;
}
