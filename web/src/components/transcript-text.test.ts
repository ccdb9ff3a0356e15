// @vitest-environment happy-dom

import { expect, it } from "vitest";
import { transcriptText } from "./transcript-text.ts";

it("names the speakers, and leaves out who said nothing", () => {
  const text = transcriptText([
    { role: "model", text: " Hello! ", atMs: 4200 },
    { role: "user", text: " " },
    { role: "user", text: "What is\nthat?" },
    { role: "model", text: "It is", atMs: 61_000, cut: true },
  ]);
  expect(text).toBe(
    "0:04 Model: Hello!\n\nYou: What is\nthat?\n\n1:01 Model: It is (interrupted)\n",
  );
  expect(transcriptText([{ role: "user", text: "" }])).toBe("");
});
