// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { voiceFields, voiceList, voicePath } from "./voice-list.ts";

const VOICE = { filename: "", created_at: "", source_type: "upload", duration_ms: 1 };
const ADA = { ...VOICE, id: "ada", name: "Ada", path: "ada.wav", sample_rate: 16_000 };
const fetched = vi.fn(async () => new Response(JSON.stringify({ ref_audios: [ADA], total: 1 })));

beforeEach(() => {
  voiceList.set(null);
  fetched.mockClear();
  vi.stubGlobal("fetch", fetched);
});
afterEach(() => vi.unstubAllGlobals());

it("loads the list for the selected voice, which may not be there after a reload", async () => {
  expect(await voiceFields({ model: "ada", speech: null })).toEqual({ ref_audio_path: "ada.wav" });
  expect(await voiceFields({ model: "ada", speech: null })).toEqual({ ref_audio_path: "ada.wav" });
  expect(fetched).toHaveBeenCalledOnce();
});

it("finds a voice that another page has added", async () => {
  voiceList.set([]);
  expect(await voicePath("ada")).toBe("ada.wav");
  expect(await voicePath("deleted")).toBeUndefined();
});

it("loads nothing for the default voice", async () => {
  expect(await voiceFields({ model: null, speech: null })).toEqual({});
  expect(fetched).not.toHaveBeenCalled();
});

it("uses the default voice if the list does not load", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("failed")));
  expect(await voiceFields({ model: "ada", speech: null })).toEqual({});
});
