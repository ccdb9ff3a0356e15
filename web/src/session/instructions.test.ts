// @vitest-environment happy-dom

import { beforeEach, expect, it, vi } from "vitest";
import type { Preset } from "../api/catalog.ts";
import { base64FromSamples } from "../audio/pcm.ts";
import { type Part, textPart } from "../media/parts.ts";
import { Settings } from "../state/store.ts";
import { INSTRUCTION_FIELDS, Instructions } from "./instructions.ts";
import { endPresetChoice } from "./preset-choice.ts";

const SOUND = Float32Array.of(0.25, -0.25);
const VOICE = Float32Array.of(0.5);
const REF = { data: null, path: "assets/ref_audio/english.wav", name: "english.wav", duration: 1 };

const PRESET: Preset = {
  id: "assistant",
  order: 1,
  name: "Assistant",
  description: "",
  system_content: [
    { type: "text", text: "Speak like this.", about_voice: true },
    { type: "audio", ...REF },
    { type: "text", text: "Be brief." },
  ],
};
const SILENT: Preset = {
  ...PRESET,
  id: "reader",
  system_content: [{ type: "text", text: "Look." }],
};

const ANSWERS: Record<string, object> = {
  "/api/presets/half_duplex_audio/assistant/audio": {
    system_content_audio: [{ data: base64FromSamples(SOUND), name: "english.wav", duration: 1 }],
  },
  "/api/presets/half_duplex_audio/reader/audio": {},
  "/api/assets/ref_audio/ada": {
    name: "Ada",
    base64: base64FromSamples(VOICE),
    duration: 1 / 16_000,
    sample_rate: 16_000,
    samples: 1,
  },
};

beforeEach(() => {
  clonesVoices = true;
  localStorage.clear();
  endPresetChoice("half_duplex_audio");
  vi.stubGlobal(
    "fetch",
    vi.fn(async (path: string) => {
      const answer = ANSWERS[path];
      return new Response(JSON.stringify(answer ?? { error: "no such voice" }), {
        status: answer ? 200 : 404,
      });
    }),
  );
});

let clonesVoices = true;

function open(): Instructions {
  const settings = new Settings("test", 1, INSTRUCTION_FIELDS, "preset");
  return new Instructions("half_duplex_audio", settings, () => clonesVoices);
}

const shown = (parts: readonly Part[]): string[] =>
  parts.map((part) => (part.type === "text" ? part.text : part.name));

async function loaded(): Promise<Instructions> {
  const instructions = open();
  instructions.choose(PRESET);
  expect(shown(instructions.parts.value).join()).not.toContain("english.wav");
  await instructions.complete();
  return instructions;
}

it("loads the preset's texts and audio in order", async () => {
  const { parts, presetVoice } = await loaded();
  expect(shown(parts.value)).toEqual(["Speak like this.", "english.wav", "Be brief."]);
  expect(presetVoice?.samples).toEqual(SOUND);
});

it("leaves the voice and the texts about it out for a model with its own voice", async () => {
  clonesVoices = false;
  const instructions = await loaded();
  expect(shown(instructions.messageParts)).toEqual(["Be brief."]);
  await instructions.useVoice("ada");
  expect(shown(instructions.messageParts)).toEqual(["Be brief."]);
  const fetched = vi.mocked(fetch).mock.calls.map(([path]) => path);
  expect(fetched.filter((path) => String(path).includes("audio"))).toEqual([]);
});

it("keeps the user's texts in place when a model with voices comes and goes", async () => {
  clonesVoices = false;
  const instructions = await loaded();
  const [brief] = instructions.parts.value;
  instructions.edit([{ ...(brief as Part), text: "Be long." } as Part, textPart("Be kind.")]);
  clonesVoices = true;
  await instructions.complete();
  expect(shown(instructions.messageParts)).toEqual([
    "Speak like this.",
    "english.wav",
    "Be long.",
    "Be kind.",
  ]);
  clonesVoices = false;
  await instructions.complete();
  expect(shown(instructions.messageParts)).toEqual(["Be long.", "Be kind."]);
});

it("greets with the words of the preset, or with the user's", () => {
  const instructions = open();
  expect(instructions.greeting).toBe("");
  instructions.choose({ ...PRESET, greeting: "Hello!" });
  expect(instructions.greeting).toBe("Hello!");
  instructions.greetWith("");
  expect(instructions.greeting).toBe("");
  instructions.choose({ ...PRESET, id: "other", greeting: "Welcome!" });
  expect(instructions.greeting).toBe("Welcome!");
});

it("keeps the user's texts until another preset is selected", async () => {
  const first = await loaded();
  const [one, two, three] = first.parts.value as [Part, Part, Part];
  first.edit([one, two, { ...three, type: "text", text: "Be kind." } as Part]);
  expect(shown((await loaded()).parts.value)).toEqual([
    "Speak like this.",
    "english.wav",
    "Be kind.",
  ]);
  first.choose(SILENT);
  first.choose(PRESET);
  await first.complete();
  expect(shown(first.parts.value)).toEqual(["Speak like this.", "english.wav", "Be brief."]);
});

it("keeps what the user enters before the presets arrive", () => {
  const instructions = open();
  instructions.edit([textPart("Talk like a pirate.")]);
  instructions.greetWith("Ahoy!");
  instructions.choose({ ...SILENT, greeting: "Hello!" });
  expect(shown(instructions.parts.value)).toEqual(["Talk like a pirate."]);
  expect(instructions.greeting).toBe("Ahoy!");
  instructions.choose({ ...PRESET, greeting: "Hello!" });
  expect(shown(instructions.parts.value)).toEqual(["Speak like this.", "Be brief."]);
  expect(instructions.greeting).toBe("Hello!");
});

it("applies texts if the number of text parts differs", async () => {
  const first = await loaded();
  const [one, clip] = first.parts.value as [Part, Part];
  first.edit([one, clip]);
  expect(shown((await loaded()).parts.value)).toEqual(["Speak like this.", "english.wav"]);
  first.edit([one, clip, one, one]);
  expect(shown((await loaded()).parts.value)).toHaveLength(4);
});

it("replaces the first audio part by another voice, and restores it", async () => {
  const instructions = await loaded();
  await instructions.useVoice("ada");
  expect(shown(instructions.parts.value)).toEqual(["Speak like this.", "Ada", "Be brief."]);
  expect(shown((await loaded()).parts.value)[1]).toBe("Ada");
  await instructions.useVoice(null);
  expect(shown(instructions.parts.value)[1]).toBe("english.wav");
});

it("inserts a voice at the start if there is none, and removes it again", async () => {
  const instructions = open();
  instructions.choose(SILENT);
  await instructions.useVoice("ada");
  expect(shown(instructions.parts.value)).toEqual(["Ada", "Look."]);
  await instructions.useVoice(null);
  expect(shown(instructions.parts.value)).toEqual(["Look."]);
});

it("uses the preset's voice if the selected voice was deleted", async () => {
  const instructions = await loaded();
  await instructions.useVoice("gone");
  expect(instructions.selection.voice).toBeNull();
  expect(shown(instructions.parts.value)[1]).toBe("english.wav");
});

it("sends only parts with content", async () => {
  const instructions = await loaded();
  const [one, clip, three] = instructions.parts.value as [Part, Part, Part];
  instructions.edit([{ ...one, type: "text", text: "  " } as Part, clip, three]);
  expect(shown(instructions.messageParts)).toEqual(["english.wav", "Be brief."]);
});

const OWN: Preset = {
  ...SILENT,
  id: "own_1",
  voices: { model: "ada", speech: "bea" },
};

it("applies the voices of the user's preset, and keeps edits made while they load", async () => {
  const instructions = open();
  instructions.choose(OWN);
  const loading = instructions.complete();
  const [text] = instructions.parts.value as [Part];
  instructions.edit([{ ...text, type: "text", text: "Look up." } as Part]);
  await loading;
  expect(shown(instructions.parts.value)).toEqual(["Ada", "Look up."]);
  expect(instructions.selection).toMatchObject({ voice: "ada", speech: "bea" });
  instructions.choose(PRESET);
  expect(instructions.selection).toMatchObject({ voice: null, speech: null, wording: null });
});
