// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Preset } from "../api/catalog.ts";
import { applyPreset, callSettings, prepareFields, presetContent } from "./call-settings.ts";

beforeEach(() => localStorage.clear());
afterEach(() => vi.unstubAllGlobals());

const VOICE = { path: "ada.wav", data: null, name: "Ada", duration: 1 };
const [ASSISTANT, POET] = ["assistant", "poet"].map((id): Preset => {
  const prompt = `You are a ${id}.`;
  return {
    id,
    order: 0,
    name: id,
    description: "",
    system_prompt: prompt,
    greeting: "Hello!",
    ref_audio: VOICE,
  };
}) as [Preset, Preset];

const ADA = { id: "ada", name: "Ada", path: "ada.wav", filename: "ada.wav", created_at: "" };

async function answerVoices(): Promise<Response> {
  const voices = [{ ...ADA, source_type: "shipped", duration_ms: 1, sample_rate: 16_000 }];
  return new Response(JSON.stringify({ ref_audios: voices, total: 1 }));
}

it("keeps what the user enters before the presets arrive", () => {
  const settings = callSettings("audio");
  settings.update({ prompt: "Talk like a pirate.", voice: "bea" });
  applyPreset(settings, ASSISTANT);
  expect(settings.value).toMatchObject({
    preset: "assistant",
    prompt: "Talk like a pirate.",
    greeting: "Hello!",
    voice: "bea",
  });
  applyPreset(settings, { ...POET, voices: { model: "ada", speech: null } });
  expect(settings.value).toMatchObject({ prompt: "You are a poet.", voice: "ada" });
});

it("takes the check-in of a preset, and none of one without", () => {
  const settings = callSettings("audio");
  const voices = { model: "ada", speech: null };
  for (const [preset, checkIn] of [
    [{ ...ASSISTANT, check_in_s: 20 }, 20],
    [POET, 0],
  ] as const) {
    applyPreset(settings, { ...preset, voices });
    expect(prepareFields("audio", settings.value, {}).config?.check_in_s).toBe(checkIn);
  }
});

it("keeps a voice that is selected while that of the preset is looked up", async () => {
  const fetched = vi.fn(answerVoices);
  vi.stubGlobal("fetch", fetched);
  const settings = callSettings("audio");
  applyPreset(settings, ASSISTANT);
  settings.update({ voice: "bea" });
  await vi.waitFor(() => expect(fetched).toHaveBeenCalledOnce());
  await new Promise((resolve) => setTimeout(resolve));
  expect(settings.value.voice).toBe("bea");
  applyPreset(settings, POET);
  await vi.waitFor(() => expect(settings.value.voice).toBe("ada"));
});

it("keeps the voice of a preset that is saved as another one before its voice is looked up", async () => {
  vi.stubGlobal("fetch", answerVoices);
  const settings = callSettings("audio");
  applyPreset(settings, ASSISTANT);
  expect(await presetContent(settings)).toMatchObject({ voice: "ada" });
});

it("sends the defaults and omits the recording consent", () => {
  const { value } = callSettings("audio");
  const fields = prepareFields("audio", value, {});
  expect(fields.config).toEqual({
    check_in_s: 0,
    end_on_goodbye: true,
    time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    temperature: 0.7,
    top_p: 0.8,
    top_k: 20,
    max_new_speak_tokens_per_chunk: 20,
    listen_prob_scale: 1,
    force_listen_count: 3,
  });
  expect(fields.record).toBeUndefined();
  expect(fields.max_slice_nums).toBeUndefined();
});

it("refuses recording, sets slices only for video, and passes voices", () => {
  const values = { ...callSettings("omni").value, record: false, slices: 4 };
  const fields = prepareFields("omni", values, { ref_audio_path: "assets/ref_audio/english.wav" });
  expect(fields).toMatchObject({
    record: false,
    max_slice_nums: 4,
    ref_audio_path: "assets/ref_audio/english.wav",
  });
});
