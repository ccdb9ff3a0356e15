import { html, nothing, type TemplateResult } from "lit";
import type { Capabilities } from "../api/answers.ts";
import { fetchCapabilities, type Preset } from "../api/catalog.ts";
import { ApiError, INVALID_ANSWER } from "../api/http.ts";
import { common } from "../i18n/common.ts";
import { en } from "../i18n/en.ts";
import { language, languageName, tag } from "../i18n/language.ts";
import { Store } from "../state/store.ts";
import { showError } from "./errors.ts";

/** What the engines of the server can do. Null until it is known. */
export const capabilities = new Store<Capabilities | null>(null);

let loading: Promise<void> | undefined;
let watched = false;

/**
 * Loads them unless they are known, and again when the page becomes visible. They stay unknown
 * without an answer, and while no worker runs.
 */
export async function loadCapabilities(): Promise<void> {
  if (!watched) {
    watched = true;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) void refreshCapabilities();
    });
  }
  if (capabilities.value !== null) return;
  loading ??= refreshCapabilities().finally(() => {
    loading = undefined;
  });
  await loading;
}

/** Loads them again. */
export async function refreshCapabilities(): Promise<void> {
  try {
    const found = await fetchCapabilities();
    capabilities.set(found.model === null ? null : found);
  } catch (error) {
    // The requests for the menu and the settings report that the server does not answer.
    if (error instanceof ApiError && error.code === INVALID_ANSWER) showError(error);
  }
}

/** Whether an engine understands a language, as far as is known. */
export function understands(able: Capabilities | null, code: string): boolean {
  return able === null || able.hears.length === 0 || able.hears.includes(code);
}

/** Whether an engine can do what a preset needs. */
export function isUsable(
  preset: Pick<Preset, "lang" | "needs">,
  able: Capabilities | null,
): boolean {
  if (preset.lang != null && !understands(able, preset.lang)) return false;
  return (preset.needs ?? []).every((need) =>
    need === "sight" ? (able?.sees ?? true) : understands(able, need),
  );
}

/** Whether the model can speak with a reference voice, as far as is known. */
export function clonesVoices(): boolean {
  return capabilities.value?.clones_voices ?? true;
}

/** These words, or none if the model cannot begin a conversation with them. */
export async function possibleGreeting(words: string): Promise<string> {
  await loadCapabilities();
  return canGreet(capabilities.value, words) ? words : "";
}

/** Whether the model can begin a conversation with these words. */
export function canGreet(able: Capabilities | null, words: string): boolean {
  if (!able?.greets) return false;
  const isChinese = /\p{Script=Han}/u.test(words);
  return !isChinese || able.speaks.length === 0 || able.speaks.includes("zh");
}

/**
 * What the model cannot do on a page, or how far it can see, in one or two sentences. Empty if it can do
 * everything.
 */
export function limitations(able: Capabilities | null, { camera = false } = {}): string {
  const t = common().capabilities;
  if (able?.model == null) return "";
  if (able.simulated) return t.simulated;
  const lines: string[] = [];
  if (camera && !able.sees) lines.push(t.blind(able.model));
  if (camera && able.sees_in_words) lines.push(t.recognises);
  if (!understands(able, language.value)) lines.push(t.hears(able.model, names(able.hears)));
  return lines.join(" ");
}

/** The name of the model, beside the heading of a page. `limitations` says if it is simulated. */
export function modelBadge(able: Capabilities | null): TemplateResult | typeof nothing {
  if (able?.model == null || able.simulated) return nothing;
  return html`<span class="badge"><span class="truncate">${able.model}</span></span>`;
}

/** Questions to begin with, in a language that the model understands. */
export function questions(able: Capabilities | null): typeof en.capabilities.questions {
  return understoodTexts(able).questions;
}

function understoodTexts(able: Capabilities | null): typeof en.capabilities {
  return (understands(able, language.value) ? common() : en).capabilities;
}

/** “For example: …” with the first question, or with one about what the model sees. */
export function exampleQuestion(able: Capabilities | null, { camera = false } = {}): string {
  const { seen, questions } = understoodTexts(able);
  return common().capabilities.example(camera && able?.sees ? seen : questions.first);
}

function names(codes: readonly string[]): string {
  return new Intl.ListFormat(tag()).format(codes.map(languageName));
}
