import { expect, it } from "vitest";
import { Transcript } from "./transcript.ts";

it("joins the text of one side until the line is complete", () => {
  const transcript = new Transcript();
  transcript.say("model", "The capital");
  transcript.say("user", "Wait");
  transcript.say("model", " is Rome.");
  transcript.end("model");
  transcript.say("model", "Yes?");
  expect(transcript.lines).toMatchObject([
    { role: "model", text: "The capital is Rome.", done: true, cut: false },
    { role: "user", text: "Wait", done: false },
    { role: "model", text: "Yes?", done: false },
  ]);
});

it("starts a new line after the other side", () => {
  const transcript = new Transcript();
  transcript.add("user", "What is the capital of Italy?");
  transcript.add("user", "");
  transcript.say("model", "Rome.");
  transcript.add("user", "And of Germany?");
  expect(transcript.lines).toMatchObject([
    { role: "user", text: "What is the capital of Italy?", done: true },
    { role: "model", text: "Rome.", done: false },
    { role: "user", text: "And of Germany?", done: true },
  ]);
});

it("marks interrupted lines and keeps lines during silence", () => {
  const transcript = new Transcript();
  transcript.say("model", "Once upon");
  transcript.end("model", { cut: true });
  transcript.say("model", "");
  transcript.end("model");
  expect(transcript.lines).toMatchObject([{ text: "Once upon", done: true, cut: true }]);
});

it("returns a new array for every change", () => {
  const transcript = new Transcript();
  transcript.say("user", "a");
  const before = transcript.lines;
  transcript.say("user", "b");
  expect(before).toMatchObject([{ text: "a" }]);
  expect(transcript.lines).not.toBe(before);
});
