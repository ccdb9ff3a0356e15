import { type Preset, type PresetPage, type PresetSound, presetSounds } from "../api/catalog.ts";
import { ApiError } from "../api/http.ts";
import { voiceSound } from "../api/voices.ts";
import { samplesFromBase64 } from "../audio/pcm.ts";
import { type AudioPart, audioPart, type Part, saysSomething, textPart } from "../media/parts.ts";
import { optional, wording } from "../settings/fields.ts";
import type { Values } from "../settings/settings.ts";
import { Store } from "../state/store.ts";

/** What pages with instructions remember of them. */
export const INSTRUCTION_FIELDS = {
  preset: optional(64),
  /** The preset's texts as the reader changed them. */
  wording: wording(20_000),
  /** Ids of voices: of the model, and of its speech. */
  voice: optional(64),
  speech: optional(64),
};

type Kept = Values<typeof INSTRUCTION_FIELDS>;

interface Shelf {
  readonly value: Kept;
  update(changes: Partial<Kept>): void;
}

/**
 * What a conversation is told before it begins: a preset's words and voice, with what the reader
 * changed. The first sound among them is the voice.
 */
export class Instructions {
  readonly parts = new Store<readonly Part[]>([]);
  readonly page: PresetPage;
  readonly #kept: Shelf;
  #own: AudioPart | undefined;
  #worn: AudioPart | undefined;
  #loading = 0;

  constructor(page: PresetPage, kept: Shelf) {
    this.page = page;
    this.#kept = kept;
  }

  get kept(): Kept {
    return this.#kept.value;
  }

  /** Begin with a preset; texts that were changed stay when it is the one of before. Rejects with ApiError. */
  async choose(preset: Preset): Promise<void> {
    const again = preset.id === this.kept.preset;
    this.#kept.update({ preset: preset.id, ...(again ? {} : { wording: null }) });
    await this.#load(async () => {
      const sounds = (await presetSounds(this.page, preset.id)).system_content_audio ?? [];
      const parts = partsOf(preset, sounds);
      this.#own = parts.find((part) => part.type === "audio");
      return withWording(parts, this.kept.wording);
    });
  }

  /** What the reader made of it. */
  edit(parts: readonly Part[]): void {
    this.parts.set(parts);
    const texts = parts.filter((part) => part.type === "text").map(({ text }) => text);
    this.#kept.update({ wording: texts });
  }

  /** Another voice for the model; null is the preset's own. Rejects with ApiError. */
  async useVoice(voice: string | null): Promise<void> {
    this.#kept.update({ voice });
    await this.#load(async () => this.parts.value);
  }

  useSpeech(speech: string | null): void {
    this.#kept.update({ speech });
  }

  /** The voice of the preset itself. */
  get own(): AudioPart | null {
    return this.#own ?? null;
  }

  /** Those that say something. */
  get told(): readonly Part[] {
    return this.parts.value.filter(saysSomething);
  }

  /** With the voice that is chosen now; of two that are under way the later one counts. */
  async #load(make: () => Promise<readonly Part[]>): Promise<void> {
    this.#loading += 1;
    const turn = this.#loading;
    const parts = await make();
    const voice = await this.#voice();
    if (turn !== this.#loading) return;
    const bare = voice ? parts : parts.filter((part) => part !== this.#worn);
    this.#worn = voice;
    this.parts.set(withVoice(bare, voice));
  }

  async #voice(): Promise<AudioPart | undefined> {
    const { voice } = this.kept;
    if (voice === null) return this.#own;
    try {
      const { name, base64 } = await voiceSound(voice);
      return audioPart(name, samplesFromBase64(base64));
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
      this.#kept.update({ voice: null }); // someone deleted it
      return this.#own;
    }
  }
}

function partsOf(preset: Preset, sounds: readonly PresetSound[]): Part[] {
  const waiting = [...sounds];
  return (preset.system_content ?? []).flatMap((item): Part[] => {
    if (item.type === "text") return [textPart(item.text)];
    const sound = waiting.shift();
    return sound ? [audioPart(sound.name, samplesFromBase64(sound.data))] : [];
  });
}

/** The texts in their places; what is too many comes last, places without one are dropped. */
export function withWording(parts: readonly Part[], texts: readonly string[] | null): Part[] {
  if (texts === null) return [...parts];
  const waiting = [...texts];
  const placed = parts.flatMap((part): Part[] => {
    if (part.type !== "text") return [part];
    const text = waiting.shift();
    return text === undefined ? [] : [{ ...part, text }];
  });
  return [...placed, ...waiting.map(textPart)];
}

/** The first sound replaced; at the beginning where there was none. */
export function withVoice(parts: readonly Part[], voice: AudioPart | undefined): Part[] {
  const place = parts.findIndex(({ type }) => type === "audio");
  if (!voice) return [...parts];
  return place < 0 ? [voice, ...parts] : parts.with(place, voice);
}
