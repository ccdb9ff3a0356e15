// @vitest-environment happy-dom

import { expect, it, vi } from "vitest";
import { resumeWhenVisible } from "./audio-context.ts";

it("stays suspended without an error while the system needs the audio", async () => {
  const refused = Promise.reject(new DOMException("interrupted", "InvalidStateError"));
  const caught = vi.spyOn(refused, "catch");
  const context = Object.assign(new EventTarget(), { state: "interrupted", resume: () => refused });
  resumeWhenVisible(context as unknown as AudioContext);
  context.dispatchEvent(new Event("statechange"));
  expect(caught).toHaveBeenCalled();
});
