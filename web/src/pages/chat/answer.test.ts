// @vitest-environment happy-dom

import { afterEach, expect, it, vi } from "vitest";
import { devices } from "../../audio/audio-settings.ts";
import { FakeAudioContext, stubAudio } from "../../audio/fake-audio.ts";
import { filePart } from "../../media/parts.ts";
import type { Answer } from "../../session/chat-exchange.ts";
import type { SessionEnd } from "../../session/session.ts";
import { AnswerSpeaker, answerProblemOf } from "./answer.ts";
import { chatSettings } from "./panel.ts";

afterEach(() => vi.unstubAllGlobals());

const file = (type: "image" | "video") =>
  filePart(type, `a-${type}`, new Blob(["x"]), new ArrayBuffer(1));

function problem(end: Partial<SessionEnd> | null, refused: Answer["refused"], videoSound = true) {
  const exchange = {
    end: end && { by: "server", code: "invalid_field", message: "", ...end },
  };
  const answer = { role: "assistant", id: 1, text: "", audio: null, refused, exchange } as unknown;
  return answerProblemOf(answer as Answer, { ...chatSettings.value, videoSound });
}

it("returns null for complete and stopped answers", () => {
  expect(problem(null, null)).toBeNull();
  expect(problem({ by: "user", code: "stopped" }, null)).toBeNull();
});

it("names an unsupported kind of part and offers to retry without it", () => {
  const field = "messages.1.content.0";
  const message = `${field}: the local engine does not see images`;
  expect(problem({ field, message }, file("image"))).toEqual({
    title: "This model cannot see images",
    remedy: "Server message: the local engine does not see images.",
    remedies: ["image", "edit"],
  });
});

it("distinguishes broken files from unsupported ones", () => {
  const found = problem({ field: "messages.1.content.0.data" }, file("image"));
  expect(found?.title).toBe("Cannot use a-image");
});

it("offers the audio of a video if it was disabled", () => {
  const field = "messages.1.content.0";
  expect(problem({ field }, file("video"), false)?.remedies).toEqual([
    "videoSound",
    "video",
    "edit",
  ]);
  expect(problem({ field }, file("video"))?.remedies).toEqual(["video", "edit"]);
});

it.each([
  ["enable_thinking", "thinking"],
  ["tts.ref_audio_path", "speech"],
])("offers to retry without %s", (field, remedy) => {
  expect(problem({ field }, null)?.remedies).toEqual([remedy]);
});

it("offers a retry for temporary errors", () => {
  const found = problem({ by: "connection", code: "lost" }, null);
  expect(found).toMatchObject({ title: "Connection lost", remedies: ["again"] });
});

it.each([
  ["inference_error", "The model reported an error"],
  ["invalid_field", "The message was refused"],
])("shows the engine's message for %s and offers to retry without speech", (code, title) => {
  const message = "this engine has no vocoder: ask for text only";
  expect(problem({ code, message }, null)).toEqual({
    title,
    remedy: message,
    remedies: ["again", "speech"],
  });
});

it("speaks on the default output while the selected speaker is not connected", async () => {
  stubAudio();
  devices.update({ speaker: "headset" });
  FakeAudioContext.setSink = () => Promise.reject(new DOMException("gone", "NotFoundError"));
  const voice = new AnswerSpeaker(() => undefined);
  const player = await voice.player();
  FakeAudioContext.setSink = () => Promise.resolve();
  expect(await voice.player()).toBe(player);
  await voice.player();
  expect(FakeAudioContext.all[0]?.setSinkId).toHaveBeenCalledTimes(2);
  voice.close();
  devices.update({ speaker: null });
});
