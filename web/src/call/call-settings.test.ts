// @vitest-environment happy-dom

import { beforeEach, expect, it } from "vitest";
import { callSettings, prepareFields } from "./call-settings.ts";

beforeEach(() => localStorage.clear());

it("sends the defaults and omits the recording consent", () => {
  const { value } = callSettings("audio");
  const fields = prepareFields("audio", value, {});
  expect(fields.config).toEqual({
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
