// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { filePart } from "../../media/parts.ts";
import type { Answer } from "../../session/chat-request.ts";
import type { SessionEnd } from "../../session/session-state.ts";
import { answerErrorOf } from "./answer-errors.ts";
import { chatSettings } from "./settings.ts";

const file = (type: "image" | "video") =>
  filePart(type, `a-${type}`, new Blob(["x"]), new ArrayBuffer(1));

function trouble(end: Partial<SessionEnd> | null, refused: Answer["refused"], videoSound = true) {
  const exchange = {
    end: end && { by: "server", code: "invalid_field", message: "", ...end },
  };
  const answer = { role: "assistant", id: 1, text: "", sound: null, refused, exchange } as unknown;
  return answerErrorOf(answer as Answer, { ...chatSettings.value, videoSound });
}

it("says nothing of answers that came or were stopped", () => {
  expect(trouble(null, null)).toBeNull();
  expect(trouble({ by: "user", code: "stopped" }, null)).toBeNull();
});

it("names what the model has no sense for, and offers to ask without it", () => {
  const field = "messages.1.content.0";
  const message = `${field}: the local engine does not see images`;
  expect(trouble({ field, message }, file("image"))).toEqual({
    title: "This model does not see pictures",
    remedy: "The server says: the local engine does not see images.",
    remedies: ["image", "edit"],
  });
});

it("tells a broken file from one that cannot be seen", () => {
  const found = trouble({ field: "messages.1.content.0.data" }, file("image"));
  expect(found?.title).toBe("a-image cannot be used");
});

it("offers a video's sound where that was switched off", () => {
  const field = "messages.1.content.0";
  expect(trouble({ field }, file("video"), false)?.remedies).toEqual([
    "videoSound",
    "video",
    "edit",
  ]);
  expect(trouble({ field }, file("video"))?.remedies).toEqual(["video", "edit"]);
});

it.each([
  ["enable_thinking", "thinking"],
  ["tts.ref_audio_path", "speech"],
])("offers to go without what %s asked for", (field, remedy) => {
  expect(trouble({ field }, null)?.remedies).toEqual([remedy]);
});

it("offers to try again what may work the next time", () => {
  const found = trouble({ by: "connection", code: "lost" }, null);
  expect(found).toMatchObject({ title: "The connection was lost", remedies: ["again"] });
});

it("passes on what the engine says, and offers to go without speech", () => {
  const message = "this engine has no vocoder: ask for text only";
  expect(trouble({ code: "inference_error", message }, null)).toEqual({
    title: "The model could not do that",
    remedy: message,
    remedies: ["again", "speech"],
  });
});
