import type { Preset } from "../api/catalog.ts";
import { Store } from "../state/store.ts";
import { localValues } from "./browser-values.ts";
import { randomId } from "./random-id.ts";

const KEY = "antiphon.presets";
const ID_START = "own_";

/** A preset of the user, which only this browser has. */
export interface OwnPreset {
  readonly id: string;
  readonly name: string;
  /** Instructions. A call joins them. */
  readonly texts: readonly string[];
  /** What the model says first. Calls only. */
  readonly greeting: string;
  /** Voice ids of the model and of its output. */
  readonly voice: string | null;
  readonly speech: string | null;
}

export type PresetContent = Omit<OwnPreset, "id" | "name">;

/** All own presets, the oldest first. */
export const ownPresets = new Store<readonly OwnPreset[]>(stored());

addEventListener("storage", ({ key }) => {
  if (key === KEY) ownPresets.set(stored());
});

/** Adds a preset, or replaces the one with this id. */
export function saveOwnPreset(name: string, content: PresetContent, id = freshId()): OwnPreset {
  const preset = { id, name, ...content };
  const all = stored();
  const known = all.some((one) => one.id === id);
  write(known ? all.map((one) => (one.id === id ? preset : one)) : [...all, preset]);
  return preset;
}

export function deleteOwnPreset(id: string): void {
  write(stored().filter((one) => one.id !== id));
}

export function isOwnPreset(id: string | null): boolean {
  return id?.startsWith(ID_START) ?? false;
}

/** In the form of the server's presets, for every page. */
export function asPreset(own: OwnPreset): Preset {
  const { id, name, texts, greeting } = own;
  return {
    id,
    order: 0,
    name,
    description: "",
    system_prompt: texts.join("\n\n"),
    greeting,
    system_content: texts.map((text) => ({ type: "text", text })),
    voices: { model: own.voice, speech: own.speech },
  };
}

function freshId(): string {
  return `${ID_START}${randomId()}`;
}

function write(all: readonly OwnPreset[]): void {
  localValues.set(KEY, JSON.stringify(all));
  ownPresets.set(all);
}

/** Read for each change, because another tab may have changed them. */
function stored(): readonly OwnPreset[] {
  try {
    const all: unknown = JSON.parse(localValues.get(KEY) ?? "[]");
    return Array.isArray(all) ? all.filter(isValid) : [];
  } catch {
    return []; // not written by this page
  }
}

function isValid(value: unknown): value is OwnPreset {
  if (typeof value !== "object" || value === null) return false;
  const { id, name, texts, greeting, voice, speech } = value as Partial<OwnPreset>;
  const isText = (one: unknown) => typeof one === "string";
  return (
    [id, name, greeting].every(isText) &&
    Array.isArray(texts) &&
    texts.every(isText) &&
    [voice, speech].every((one) => one === null || isText(one))
  );
}
