// @vitest-environment happy-dom

import { afterEach, expect, it, vi } from "vitest";
import { AudioEngine } from "../audio/audio-engine.ts";
import { AntiphonCall } from "./call-element.ts";

afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
});

function element(attributes: Readonly<Record<string, string>>): AntiphonCall {
  const call = new AntiphonCall();
  for (const [name, value] of Object.entries(attributes)) call.setAttribute(name, value);
  document.body.append(call);
  return call;
}

it.each([
  ["an address that is none", { server: "https://:0", lang: "en" }, "The call cannot start: "],
  ["a key that cannot be sent", { key: "密钥", lang: "zh" }, "无法发起通话: "],
])("shows the reason with %s", async (_, attributes, reason) => {
  const opened = vi.spyOn(AudioEngine, "open");
  const call = element(attributes);
  const phases: string[] = [];
  call.addEventListener("antiphon-phase", (event) =>
    phases.push((event as CustomEvent<{ phase: string }>).detail.phase),
  );
  await call.start();
  const status = call.shadowRoot?.querySelector("[role=status]")?.textContent ?? "";
  expect(status.slice(0, reason.length)).toBe(reason);
  expect(status.length).toBeGreaterThan(reason.length);
  expect([call.phase, ...phases]).toEqual(["ended", "ended"]);
  expect(opened).not.toHaveBeenCalled();
});
