// @vitest-environment happy-dom

import { expect, it } from "vitest";
import { keyAction } from "./call-actions.ts";

function press(
  code: string,
  on: Element,
  init: KeyboardEventInit = {},
): ReturnType<typeof keyAction> {
  let action: ReturnType<typeof keyAction> = null;
  const hear = (event: Event): void => {
    action = keyAction(event as KeyboardEvent);
  };
  document.body.append(on);
  on.addEventListener("keydown", hear);
  on.dispatchEvent(new KeyboardEvent("keydown", { code, bubbles: true, ...init }));
  return action;
}

it("mutes with the space bar anywhere on the page", () => {
  expect(press("Space", document.createElement("main"))).toBe("mute");
  expect(press("KeyX", document.createElement("main"), { shiftKey: true })).toBe("end");
  expect(press("KeyX", document.createElement("main"))).toBeNull();
});

it("ignores keys that the focused element uses", () => {
  expect(press("Space", document.createElement("button"))).toBeNull();
  expect(press("KeyP", document.createElement("button"))).toBe("pause");
  expect(press("KeyP", document.createElement("textarea"))).toBeNull();
});

it("ignores modifiers and repeats", () => {
  expect(press("KeyP", document.createElement("main"), { ctrlKey: true })).toBeNull();
  expect(press("Space", document.createElement("main"), { repeat: true })).toBeNull();
});
