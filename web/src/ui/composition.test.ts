// @vitest-environment happy-dom

import { expect, test } from "vitest";
import { isComposing } from "./composition.ts";

test.each([
  [{ key: "Escape" }, false],
  [{ key: "Escape", isComposing: true }, true],
  [{ key: "Enter", keyCode: 229 }, true],
] as const)("the key %j belongs to a composition: %s", (init, expected) => {
  expect(isComposing(new KeyboardEvent("keydown", init))).toBe(expected);
});
