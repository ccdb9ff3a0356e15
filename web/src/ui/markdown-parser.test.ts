import { expect, it } from "vitest";
import { parseBlocks, parseInline } from "./markdown-parser.ts";

it("recognises paragraphs, headings, lists and code", () => {
  const text =
    "## Rome\n\nThe capital\nof Italy.\n1. Forum\n2) Pantheon\n\n- old\n* new\n```py\nx = 1\n\ny = 2\n```\nThat is **all**.";
  expect(parseBlocks(text)).toEqual([
    { type: "heading", text: "Rome" },
    { type: "paragraph", text: "The capital\nof Italy." },
    { type: "list", start: 1, items: ["Forum", "Pantheon"] },
    { type: "list", start: null, items: ["old", "new"] },
    { type: "code", text: "x = 1\n\ny = 2" },
    { type: "paragraph", text: "That is **all**." },
  ]);
});

it("accepts open markup", () => {
  expect(parseBlocks("```\nx =")).toEqual([{ type: "code", text: "x =" }]);
  expect(parseInline("so **bol")).toEqual([{ style: "plain", text: "so **bol" }]);
  expect(parseBlocks("")).toEqual([]);
});

it("parses inline styles, and ignores formulas and names", () => {
  expect(parseInline("a **b** *c* `d*e`")).toEqual([
    { style: "plain", text: "a " },
    { style: "strong", text: "b" },
    { style: "plain", text: " " },
    { style: "em", text: "c" },
    { style: "plain", text: " " },
    { style: "code", text: "d*e" },
  ]);
  expect(parseInline("2 * 3 * 4 and snake_case")).toEqual([
    { style: "plain", text: "2 * 3 * 4 and snake_case" },
  ]);
});

it("keeps text without markup unchanged", () => {
  const text = "One.\nTwo – 3 < 4 & so on.";
  expect(parseBlocks(text)).toEqual([{ type: "paragraph", text }]);
});
