// @vitest-environment happy-dom

import { expect, test } from "vitest";
import { KEY_PATTERN, keyFor, keyRequest } from "../api/http.ts";
import { isBuilt } from "../ui/page-build.ts";
import { KeyDialog } from "./shell.ts";

test("a copied key loses its spaces and invisible characters, and letters of other scripts are refused", async () => {
  isBuilt.set(true);
  const shown = new KeyDialog();
  document.body.append(shown);
  const answers: boolean[] = [];
  keyRequest.set({ role: "client", refused: false, answer: (given) => answers.push(given) });
  await shown.updateComplete;
  const input = shown.querySelector("input") as HTMLInputElement;
  input.value = " a-key-that-is\u200b-long-enough\ufeff\n";
  input.dispatchEvent(new Event("input"));
  expect(input.value).toBe("a-key-that-is-long-enough");
  shown.querySelector("form")?.dispatchEvent(new Event("submit"));
  expect([answers, keyFor("client")]).toEqual([[true], "a-key-that-is-long-enough"]);
  const pattern = new RegExp(`^(?:${input.pattern})$`, "v"); // as browsers do
  expect(input.pattern).toBe(KEY_PATTERN);
  expect([pattern.test(input.value), pattern.test("ａ-key"), pattern.test("clé")]).toEqual([
    true,
    false,
    false,
  ]);
});
