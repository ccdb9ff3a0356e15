import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const SOURCES = join(import.meta.dirname, "..");

/** Animations without an end, by their selector. They paint all the time, so each needs an end outside of CSS. */
const ALLOWED = {
  ".spinner": "shown until a request ends",
  ".dots i": "shown until the answer begins",
  ".orb:is(.connecting, .thinking) .orbit": "shown until the call connects or the answer begins",
  "an-audio-recorder .dot": "shown while the microphone records",
};

test("nothing is animated endlessly on a page at rest", () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" });
  const sheets = files.filter((file) => file.endsWith(".css"));
  expect(sheets.length).toBeGreaterThan(10);
  const found = sheets.flatMap((file) => endless(readFileSync(join(SOURCES, file), "utf8")));
  expect(found.sort()).toEqual(Object.keys(ALLOWED).sort());
});

test("an endless animation is found", () => {
  const css = `@layer ui { .a { color: red; animation: x 1s infinite; } .b { animation: x 1s 3; }
    @media (width > 9px) { .c,\n .d { animation-iteration-count: 2, infinite } } }`;
  expect(endless(css)).toEqual([".a", ".c, .d"]);
});

/** Selectors of the rules with an endless animation. */
function endless(css: string): string[] {
  const rules = css.replaceAll(/\/\*.*?\*\//gs, "").matchAll(/([^{};]+)\{([^{}]*)\}/g);
  return [...rules]
    .filter(([, , body = ""]) => /animation[a-z-]*:[^;]*\binfinite\b/.test(body))
    .map(([, selector = ""]) => selector.trim().replaceAll(/\s+/g, " "));
}
