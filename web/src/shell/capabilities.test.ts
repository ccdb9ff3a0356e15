// @vitest-environment happy-dom

import { describe, expect, it } from "vitest";
import type { Capabilities } from "../api/answers.ts";
import { canGreet, isUsable, limitations } from "./capabilities.ts";

const SMALL: Capabilities = {
  model: "Small",
  engines: [],
  kinds: [],
  hears: ["en"],
  speaks: ["en"],
  sees: false,
  sees_in_words: false,
  clones_voices: false,
  matches_voices: false,
  voices: [],
  calls_tools: false,
  greets: true,
  interim_transcripts: true,
  chunk_ms: 200,
  transcribes: false,
  reads_aloud: false,
  simulated: false,
};
const LARGE: Capabilities = { ...SMALL, model: "Large", hears: ["en", "zh"], sees: true };

type Needs = Parameters<typeof isUsable>[0];

describe("a preset", () => {
  it("is usable if an engine understands its languages and sees", () => {
    const interpreter: Needs = { lang: "en", needs: ["zh"] };
    const companion: Needs = { lang: "en", needs: ["sight"] };
    for (const preset of [interpreter, companion, { lang: "zh" } as const]) {
      expect(isUsable(preset, SMALL)).toBe(false);
      expect(isUsable(preset, LARGE)).toBe(true);
      expect(isUsable(preset, null)).toBe(true);
    }
    expect(isUsable({ lang: "en" }, SMALL)).toBe(true);
    expect(isUsable({ lang: "zh" }, { ...SMALL, hears: [] })).toBe(true);
  });
});

describe("a greeting", () => {
  it("needs engines that greet and speak its language", () => {
    expect(canGreet(SMALL, "Hello!")).toBe(true);
    expect(canGreet(SMALL, "你好！")).toBe(false);
    expect(canGreet({ ...SMALL, speaks: [] }, "你好！")).toBe(true);
    expect(canGreet({ ...SMALL, greets: false }, "Hello!")).toBe(false);
    expect(canGreet(null, "Hello!")).toBe(false);
  });
});

describe("limitations", () => {
  it("name what the model cannot do", () => {
    const camera = { camera: true };
    expect(limitations(null, camera)).toBe("");
    expect(limitations(SMALL)).toBe("");
    expect(limitations(SMALL, camera)).toContain("Small cannot see");
    expect(limitations({ ...SMALL, hears: ["zh"] })).toContain("speech in Chinese only");
    expect(limitations({ ...SMALL, simulated: true }, camera)).toContain("simulates");
    expect(limitations(LARGE, camera)).toBe("");
    const words = { ...LARGE, sees_in_words: true };
    expect(limitations(words)).toBe("");
    expect(limitations(words, camera)).toContain("recognises everyday objects");
  });
});
