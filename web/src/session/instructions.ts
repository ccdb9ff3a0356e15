import type { PresetSound } from "../api/answers.ts";
import {
  GREETING_LENGTH,
  type Preset,
  type PresetPage,
  presetAudio,
  voiceAudio,
} from "../api/catalog.ts";
import { ApiError } from "../api/http.ts";
import { samplesFromBase64 } from "../audio/pcm.ts";
import { type AudioPart, audioPart, isNotEmpty, type Part, textPart } from "../media/parts.ts";
import { optional, Store, textList, type Values } from "../state/store.ts";
import { isOwnPreset } from "../storage/own-presets.ts";
import { presetChosen } from "./preset-choice.ts";

/** Stored settings of pages with instructions. */
export const INSTRUCTION_FIELDS = {
  preset: optional(64),
  /** Texts of the preset as the user edited them. */
  wording: textList(20_000),
  /** The greeting as the user edited it. Null: that of the preset. Chats have none. */
  greeting: optional(GREETING_LENGTH),
  /** Voice ids of the model and of its output. */
  voice: optional(64),
  speech: optional(64),
};

type Selection = Values<typeof INSTRUCTION_FIELDS>;

export interface SelectionSettings {
  readonly value: Selection;
  update(changes: Partial<Selection>): void;
}

/** A text that is not shown, and its place among all texts. */
interface HiddenText {
  readonly place: number;
  readonly text: string;
}

/**
 * Instructions of a session: texts and voice of a preset, with the user's changes. The first audio
 * part is the voice. A model that cannot use it gets neither the voice nor the texts about it.
 */
export class Instructions {
  readonly parts = new Store<readonly Part[]>([]);
  readonly page: PresetPage;
  readonly #settings: SelectionSettings;
  readonly #clonesVoices: () => boolean;
  /** Whether the parts are for a model that clones voices. */
  #hasVoice = true;
  #hidden: readonly HiddenText[] = [];
  #presetVoice: AudioPart | undefined;
  #worn: AudioPart | undefined;
  #loading = 0;
  #preset: Preset | undefined;
  #complete: Promise<void> | undefined;

  /** `clonesVoices`: whether the model can use a voice, as far as is known. */
  constructor(page: PresetPage, settings: SelectionSettings, clonesVoices: () => boolean) {
    this.page = page;
    this.#settings = settings;
    this.#clonesVoices = clonesVoices;
  }

  get selection(): Selection {
    return this.#settings.value;
  }

  /**
   * Selects a preset and shows its texts. `complete` loads its audio. The user's texts remain if it
   * is the same preset, or the first one: the presets may arrive after the user has entered texts.
   */
  choose(preset: Preset): void {
    const before = this.selection.preset;
    if (preset.id !== before) {
      this.#settings.update({ preset: preset.id });
      if (before !== null) this.#settings.update({ wording: null, greeting: null });
      const { model = null, speech = null } = preset.voices ?? {};
      if (preset.voices || isOwnPreset(before)) this.#settings.update({ voice: model, speech });
    }
    this.#loading += 1;
    this.#preset = preset;
    this.#complete = undefined;
    this.#presetVoice = this.#worn = undefined;
    this.#hasVoice = this.#clonesVoices();
    this.parts.set(this.#usable(withTexts(partsOf(preset, []), this.selection.wording)));
  }

  /**
   * Waits for the preset, then loads its audio and the selected voice, which are too large for a
   * first visit. Rejects with ApiError.
   */
  async complete(): Promise<void> {
    await presetChosen(this.page);
    const preset = this.#preset;
    if (!preset) return;
    if (this.#hasVoice !== this.#clonesVoices()) this.choose(preset); // the engines have changed
    this.#complete ??= this.#load(async () => {
      const silent = !this.#hasVoice || isOwnPreset(preset.id);
      const parts = partsOf(preset, silent ? [] : await this.#clips(preset));
      this.#presetVoice = parts.find((part) => part.type === "audio");
      return parts;
    }).catch((error: unknown) => {
      this.#complete = undefined;
      throw error;
    });
    await this.#complete;
  }

  async #clips({ id }: Preset): Promise<readonly PresetSound[]> {
    return (await presetAudio(this.page, id)).system_content_audio ?? [];
  }

  /** File of the preset's voice. */
  get presetVoicePath(): string | undefined {
    return this.#preset?.system_content?.find((item) => item.type === "audio")?.path;
  }

  /** Applies the user's edits. */
  edit(parts: readonly Part[]): void {
    this.parts.set(parts);
    const texts = parts.filter((part) => part.type === "text").map(({ text }) => text);
    for (const { place, text } of this.#hidden) texts.splice(place, 0, text);
    this.#settings.update({ wording: texts });
  }

  /**
   * Selects another voice for the model. Null selects the preset's voice. Rejects with ApiError.
   */
  async useVoice(voice: string | null): Promise<void> {
    this.#settings.update({ voice });
    await this.complete();
    if (this.#hasVoice) await this.#load(async () => this.parts.value);
  }

  useSpeech(speech: string | null): void {
    this.#settings.update({ speech });
  }

  /** What the model says first. Empty: it waits for the user. */
  get greeting(): string {
    return this.selection.greeting ?? this.#preset?.greeting ?? "";
  }

  greetWith(greeting: string): void {
    this.#settings.update({ greeting });
  }

  /** The voice of the preset. */
  get presetVoice(): AudioPart | null {
    return this.#presetVoice ?? null;
  }

  /** The parts with content. Call `complete` first. */
  get messageParts(): readonly Part[] {
    return this.parts.value.filter(isNotEmpty);
  }

  /** Loads the selected voice. Of two concurrent loads the later one counts. */
  async #load(make: () => Promise<readonly Part[]>): Promise<void> {
    this.#loading += 1;
    const turn = this.#loading;
    const parts = await make();
    const voice = await this.#voice();
    if (turn !== this.#loading) return;
    const bare = voice ? parts : parts.filter((part) => part !== this.#worn);
    this.#worn = voice;
    // The user may have edited texts while the voice was loading.
    this.parts.set(withVoice(this.#usable(withTexts(bare, this.selection.wording)), voice));
  }

  /** Without the texts about a voice that the model cannot use. */
  #usable(parts: readonly Part[]): readonly Part[] {
    this.#hidden = [];
    if (this.#hasVoice) return parts;
    const texts = parts.filter((part) => part.type === "text");
    this.#hidden = texts.flatMap(({ text, aboutVoice }, place) =>
      aboutVoice ? [{ place, text }] : [],
    );
    return parts.filter((part) => part.type !== "text" || !part.aboutVoice);
  }

  async #voice(): Promise<AudioPart | undefined> {
    const { voice } = this.selection;
    if (!this.#hasVoice) return undefined;
    if (voice === null) return this.#presetVoice;
    try {
      const { name, base64 } = await voiceAudio(voice);
      return audioPart(name, samplesFromBase64(base64));
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
      this.#settings.update({ voice: null }); // the voice was deleted
      return this.#presetVoice;
    }
  }
}

function partsOf(preset: Preset, clips: readonly PresetSound[]): Part[] {
  const waiting = [...clips];
  return (preset.system_content ?? []).flatMap((item): Part[] => {
    if (item.type === "text")
      return [{ ...textPart(item.text), ...(item.about_voice && { aboutVoice: true }) }];
    const clip = waiting.shift();
    return clip ? [audioPart(clip.name, samplesFromBase64(clip.data))] : [];
  });
}

/** Replaces the texts of `parts` in order. Additional texts are appended, missing ones removed. */
function withTexts(parts: readonly Part[], texts: readonly string[] | null): Part[] {
  if (texts === null) return [...parts];
  const waiting = [...texts];
  const placed = parts.flatMap((part): Part[] => {
    if (part.type !== "text") return [part];
    const text = waiting.shift();
    return text === undefined ? [] : [{ ...part, text }];
  });
  return [...placed, ...waiting.map(textPart)];
}

/** Replaces the first audio part, or inserts it at the start. */
function withVoice(parts: readonly Part[], voice: AudioPart | undefined): Part[] {
  const index = parts.findIndex(({ type }) => type === "audio");
  if (!voice) return [...parts];
  return index < 0 ? [voice, ...parts] : parts.with(index, voice);
}
