import { describe, expect, it } from "vitest";
import { base64FromSamples } from "../audio/pcm.ts";
import { RESULT } from "./fake-websocket.ts";
import { InvalidMessage, readMessage } from "./message-reader.ts";
import {
  chatServerMessage,
  duplexServerMessage,
  halfDuplexServerMessage,
} from "./server-messages.ts";

const SOUND = Float32Array.of(0.5, -0.5);
const SPOKEN = { ...RESULT, audio_data: base64FromSamples(SOUND) };

describe("a result", () => {
  it("is read with audio and defaults for missing fields", () => {
    const message = readMessage(duplexServerMessage, SPOKEN);
    expect(message).toMatchObject({ type: "result", text: "Hello", user_text: null, timing: null });
    expect(message).toHaveProperty("simulated", false);
    expect(message?.type === "result" && message.audio_data).toEqual(SOUND);
  });

  it("has no audio if the model listens", () => {
    const message = readMessage(duplexServerMessage, {
      ...SPOKEN,
      is_listen: true,
      text: "",
      audio_data: "",
    });
    expect(message?.type === "result" && message.audio_data.length).toBe(0);
  });

  it.each([
    ["is_listen", "yes"],
    ["audio_data", "no base64!"],
    ["audio_data", "AAA="],
    ["current_time", null],
    ["server_send_ts", Number.NaN],
  ])("with an invalid %s is rejected with that name", (name, value) => {
    expect(() => readMessage(duplexServerMessage, { ...SPOKEN, [name]: value })).toThrow(
      InvalidMessage,
    );
    expect(() => readMessage(duplexServerMessage, { ...SPOKEN, [name]: value })).toThrow(name);
  });
});

it("ignores unknown message types", () => {
  expect(readMessage(duplexServerMessage, { type: "news" })).toBeUndefined();
  expect(readMessage(duplexServerMessage, {})).toBeUndefined();
});

it("reads an error with and without optional fields", () => {
  const plain = { type: "error", error: "no", message: "no", code: "unknown" };
  expect(readMessage(chatServerMessage, plain)).toEqual({
    ...plain,
    field: null,
    retryable: false,
  });
  expect(
    readMessage(chatServerMessage, { ...plain, code: "invalid_field", field: "messages.0" }),
  ).toMatchObject({
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
    { type: "timeout", elapsed_s: 180, reason: "silence" },
  ];
  const read = examples.map((example) => readMessage(halfDuplexServerMessage, example)?.type);
  expect(read).toEqual(examples.map(({ type }) => type));
});

it("reads a chat answer without audio", () => {
  const done = {
    type: "done",
    text: "A cat.",
    generated_tokens: 4,
    input_tokens: 97,
    recording_session_id: "rec_1",
    audio_data: null,
  };
  expect(readMessage(chatServerMessage, done)).toMatchObject({
    text: "A cat.",
    audio_data: null,
    stopped: false,
  });
});
