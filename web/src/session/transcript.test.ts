import { expect, it } from "vitest";
import { finalLines, playedParts, Transcript, type TranscriptLine } from "./transcript.ts";

const lineOf = (transcript: Transcript, at: number): TranscriptLine =>
  transcript.lines.at(at) as TranscriptLine;

it("joins the text of the model until the line is complete", () => {
  const transcript = new Transcript();
  transcript.say("The capital");
  transcript.addUserText("Wait");
  transcript.say(" is Rome.");
  transcript.end();
  transcript.say("Yes?");
  expect(transcript.lines).toMatchObject([
    { role: "model", text: "The capital is Rome.", done: true, cut: false },
    { role: "user", text: "Wait", done: true },
    { role: "model", text: "Yes?", done: false },
  ]);
});

it("corrects the words of a user who still speaks, in the same line", () => {
  const transcript = new Transcript();
  transcript.hearing("What is the cap");
  const first = lineOf(transcript, 0);
  expect(first).toMatchObject({ role: "user", interim: true, done: false });
  transcript.say("Hm?");
  transcript.hearing("What is the capital of it");
  transcript.addUserText("What is the capital of Italy?");
  transcript.hearing("");
  transcript.hearing("And");
  transcript.addUserText("");
  expect(transcript.lines).toMatchObject([
    { id: first.id, text: "What is the capital of Italy?", interim: false, done: true },
    { role: "model", text: "Hm?" },
    { role: "user", text: "And", interim: true },
  ]);
  expect(lineOf(transcript, 0).at).toBe(first.at);
  expect(finalLines(transcript.lines)).toHaveLength(2);
});

it("removes interim words that were no speech", () => {
  const transcript = new Transcript();
  transcript.addUserText("Hello.");
  transcript.hearing("Oh");
  transcript.hearing("");
  expect(transcript.lines).toMatchObject([{ text: "Hello." }]);
});

it("marks interrupted lines and keeps lines during silence", () => {
  const transcript = new Transcript();
  transcript.say("Once upon");
  transcript.end({ cut: true });
  expect(transcript.say("")).toBeNull();
  transcript.end();
  expect(transcript.lines).toMatchObject([{ text: "Once upon", done: true, cut: true }]);
});

it("divides a line of the model at the word that is being played", () => {
  const transcript = new Transcript();
  const line = transcript.say(" The capital") as number;
  expect(playedParts(lineOf(transcript, 0))).toEqual(["", "The capital"]);
  transcript.light(line, " The".length);
  transcript.say(" is Rome. ");
  expect(playedParts(lineOf(transcript, 0))).toEqual(["The", " capital is Rome."]);
  transcript.light(line, " capital is Rome. ".length);
  expect(playedParts(lineOf(transcript, 0))).toEqual(["The capital is Rome. ", ""]);
  transcript.addUserText("Thanks ");
  expect(playedParts(lineOf(transcript, 1))).toEqual(["Thanks", ""]);
});

it("returns a new array for every change, and none for the same interim words", () => {
  const transcript = new Transcript();
  transcript.hearing("a");
  const before = transcript.lines;
  transcript.hearing("a");
  expect(transcript.lines).toBe(before);
  transcript.hearing("a b");
  expect(before).toMatchObject([{ text: "a" }]);
  expect(transcript.lines).not.toBe(before);
});
