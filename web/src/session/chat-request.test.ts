import { expect, it } from "vitest";
import { audioPart, type Part, textPart } from "../media/parts.ts";
import { type Answer, buildMessages, type ChatEntry, partAt } from "./chat-request.ts";

const videoElement: Part = {
  id: 900,
  type: "image",
  name: "cat.jpg",
  bytes: Uint8Array.of(1),
  url: "blob:1",
};
const audio = audioPart("hello.wav", Float32Array.of(0.5));

function answer(text: string): Answer {
  const how = { exchange: {} as never, refused: null, recordAllowed: true };
  return { role: "assistant", id: 2, text, audio: null, ...how };
}

const chat: ChatEntry[] = [
  { role: "user", id: 1, parts: [videoElement, textPart("What is this?")] },
  answer("A cat."),
  { role: "user", id: 3, parts: [audio] },
];

it("sends instructions, questions and answers in order", () => {
  const { messages } = buildMessages([textPart("Be brief.")], chat, new Set());
  expect(messages).toEqual([
    { role: "system", content: [{ type: "text", text: "Be brief." }] },
    {
      role: "user",
      content: [
        { type: "image", data: videoElement.bytes },
        { type: "text", text: "What is this?" },
      ],
    },
    { role: "assistant", content: [{ type: "text", text: "A cat." }] },
    { role: "user", content: [{ type: "audio", data: audio.samples }] },
  ]);
});

it("omits empty texts, failed answers and excluded parts", () => {
  const { messages } = buildMessages(
    [textPart("  ")],
    [...chat.slice(0, 1), answer(""), ...chat.slice(2)],
    new Set([videoElement.id]),
  );
  expect(messages.map(({ role, content }) => [role, content.length])).toEqual([
    ["user", 1],
    ["user", 1],
  ]);
});

it.each([
  ["messages.1.content.0", videoElement],
  ["messages.1.content.0.data", videoElement],
  ["messages.3.content.0", audio],
  ["messages.9.content.0", null],
  ["enable_thinking", null],
  [undefined, null],
])("finds the part of %s", (field, expected) => {
  const history = buildMessages([textPart("Be brief.")], chat, new Set());
  expect(partAt(history, field)).toBe(expected);
});
