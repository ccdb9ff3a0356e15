// @vitest-environment happy-dom

import { afterEach, expect, it } from "vitest";
import { GREETING_LENGTH } from "../api/catalog.ts";
import { language } from "../i18n/language.ts";
import { canGreet, capabilities } from "../shell/capabilities.ts";
import { type OpeningName, openingTexts } from "./opening-texts.ts";

const NAMES: readonly OpeningName[] = ["count", "quiz", "story"];
const ENGLISH_ONLY = { model: "m", greets: true, hears: ["en"], speaks: ["en"] } as never;

afterEach(() => {
  language.set("en");
  capabilities.set(null);
});

it("fits into a greeting, in both languages", () => {
  for (const shown of ["en", "zh"] as const) {
    language.set(shown);
    for (const name of NAMES) {
      const { greeting, prompt } = openingTexts(name);
      expect(greeting.length).toBeGreaterThan(20);
      expect(greeting.length).toBeLessThanOrEqual(GREETING_LENGTH);
      expect(/\p{Script=Han}/u.test(greeting + prompt)).toBe(shown === "zh");
    }
  }
});

it("is in a language that the model can speak", () => {
  language.set("zh");
  capabilities.set(ENGLISH_ONLY);
  for (const name of NAMES) {
    expect(canGreet(ENGLISH_ONLY, openingTexts(name).greeting)).toBe(true);
  }
});
