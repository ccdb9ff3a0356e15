import { expect, it } from "vitest";
import { Transcript } from "./transcript.ts";

it("joins what one side says until its line ends", () => {
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

it("keeps apart what is said before and after the other side", () => {
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

it("marks what was interrupted, and forgets no line for silence", () => {
  const transcript = new Transcript();
  transcript.say("model", "Once upon");
  transcript.end("model", { cut: true });
  transcript.say("model", "");
  transcript.end("model");
  expect(transcript.lines).toMatchObject([{ text: "Once upon", done: true, cut: true }]);
});

it("gives a new list for every change, so that a page sees it", () => {
  const transcript = new Transcript();
  transcript.say("user", "a");
  const before = transcript.lines;
  transcript.say("user", "b");
  expect(before).toMatchObject([{ text: "a" }]);
  expect(transcript.lines).not.toBe(before);
});
