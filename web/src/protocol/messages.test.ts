import { describe, expect, it } from "vitest";
import { base64FromSamples } from "../audio/pcm.ts";
import { InvalidMessage } from "./message-reader.ts";
import { readChatMessage, readDuplexMessage, readHalfDuplexMessage } from "./messages.ts";

const SOUND = Float32Array.of(0.5, -0.5);
const RESULT = {
  type: "result",
  is_listen: false,
  text: "Hello",
  audio_data: base64FromSamples(SOUND),
  end_of_turn: false,
  current_time: 5000,
  cost_llm_ms: 45.2,
  cost_tts_ms: 12.3,
  cost_all_ms: 78.5,
  n_tokens: 3,
  server_send_ts: 1708771200.123,
};

describe("a result", () => {
  it("is read with audio and defaults for missing fields", () => {
    const message = readDuplexMessage(RESULT);
    expect(message).toMatchObject({ type: "result", text: "Hello", n_tts_tokens: 0, timing: null });
    expect(message?.type === "result" && message.audio_data).toEqual(SOUND);
  });

  it("has no audio if the model listens", () => {
    const message = readDuplexMessage({ ...RESULT, is_listen: true, text: "", audio_data: "" });
    expect(message?.type === "result" && message.audio_data.length).toBe(0);
  });

  it.each([
    ["is_listen", "yes"],
    ["audio_data", "no base64!"],
    ["audio_data", "AAA="],
    ["current_time", null],
    ["server_send_ts", Number.NaN],
  ])("with an invalid %s is rejected with that name", (name, value) => {
    expect(() => readDuplexMessage({ ...RESULT, [name]: value })).toThrow(InvalidMessage);
    expect(() => readDuplexMessage({ ...RESULT, [name]: value })).toThrow(name);
  });
});

it("ignores unknown message types", () => {
  expect(readDuplexMessage({ type: "news" })).toBeUndefined();
  expect(readDuplexMessage({})).toBeUndefined();
});

it("reads an error with and without optional fields", () => {
  const plain = { type: "error", error: "no", message: "no" };
  expect(readChatMessage(plain)).toEqual({
    type: "error",
    message: "no",
    code: "unknown",
    field: null,
  });
  expect(readChatMessage({ ...plain, code: "invalid_field", field: "messages.0" })).toMatchObject({
    code: "invalid_field",
    field: "messages.0",
  });
});

it("reads the examples of the half-duplex protocol", () => {
  const examples = [
    { type: "vad_state", speaking: true },
    { type: "generating", speech_duration_ms: 1180 },
    { type: "chunk", text_delta: "Paris.", audio_data: base64FromSamples(SOUND) },
    { type: "turn_done", turn_index: 0, text: "Paris.", user_text: "Which city?" },
    { type: "timeout", elapsed_s: 180 },
  ];
  const read = examples.map((example) => readHalfDuplexMessage(example)?.type);
  expect(read).toEqual(examples.map(({ type }) => type));
});

it("reads a chat answer without audio", () => {
  const done = {
    type: "done",
    text: "A cat.",
    generated_tokens: 4,
    input_tokens: 97,
    audio_data: null,
  };
  expect(readChatMessage(done)).toMatchObject({ text: "A cat.", audio_data: null, stopped: false });
});
