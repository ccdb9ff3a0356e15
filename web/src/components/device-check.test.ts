// @vitest-environment happy-dom

import { afterEach, expect, test, vi } from "vitest";
import { AudioEngine } from "../audio/audio-engine.ts";
import { isBuilt } from "../ui/page-build.ts";
import { type DeviceCheck, match, rateEcho, sweep } from "./device-check.ts";

afterEach(() => {
  document.body.replaceChildren();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const RATE = 8000;
const PLAYED = sweep(RATE);

/** 1.5 s of microphone input: an echo after `delayMs` and repeatable noise (RMS). */
function room(gain: number, noise: number, delayMs = 180): Float32Array {
  const recorded = new Float32Array(RATE * 1.5);
  const delay = (delayMs / 1000) * RATE;
  let seed = 1;
  for (let i = 0; i < recorded.length; i += 1) {
    seed = (seed * 48_271) % 2_147_483_647;
    const random = (seed / 2_147_483_647 - 0.5) * Math.sqrt(12) * noise;
    recorded[i] = gain * (PLAYED[i - delay] ?? 0) + random;
  }
  return recorded;
}

test("an exact copy has likeness 1 at any position", () => {
  expect(match(PLAYED, room(0.3, 0)).likeness).toBeCloseTo(1, 3);
  expect(match(PLAYED, room(0.3, 0, 600)).likeness).toBeCloseTo(1, 3);
});

test.each([
  ["silence", 0, 0, "none"],
  ["noise without an echo", 0, 0.05, "none"],
  ["an echo too faint to matter", 0.003, 0, "none"],
  ["a clear echo", 0.5, 0.01, "much"],
  ["an echo below the noise", 0.05, 0.04, "some"],
] as const)("%s", (_name, gain, noise, verdict) => {
  expect(rateEcho(PLAYED, room(gain, noise))).toBe(verdict);
});

test("an echo test ends without a result if the microphone changes", async () => {
  vi.useFakeTimers();
  vi.stubGlobal("isSecureContext", true);
  isBuilt.set(true);
  vi.spyOn(AudioEngine, "open").mockImplementation(async () => {
    const player = { push: () => undefined, endTurn: () => undefined };
    const leave = (): void => undefined;
    return { player, on: () => leave, close: async () => undefined } as unknown as AudioEngine;
  });
  const element = document.createElement("an-device-check") as DeviceCheck;
  document.body.append(element);
  await element.updateComplete;
  element.querySelector("button")?.click(); // Allow microphone
  await vi.advanceTimersByTimeAsync(0);
  element.querySelector("button")?.click(); // Test echo
  await vi.advanceTimersByTimeAsync(1000);
  expect(element.textContent).toContain("Listening…");
  element
    .querySelector("an-device-select")
    ?.dispatchEvent(new CustomEvent("change", { detail: "microphone" }));
  await vi.advanceTimersByTimeAsync(5000);
  expect(element.textContent).toContain("Plays a short sound");
});

test("the list of devices stays while another one is opened, and the last one counts", async () => {
  vi.stubGlobal("isSecureContext", true);
  isBuilt.set(true);
  const opening: { resolve: (audio: AudioEngine) => void; closed: boolean }[] = [];
  vi.spyOn(AudioEngine, "open").mockImplementation(
    () => new Promise((resolve) => opening.push({ resolve, closed: false })),
  );
  const finish = async (index: number): Promise<void> => {
    const one = opening[index];
    const close = async (): Promise<void> => {
      if (one) one.closed = true;
    };
    one?.resolve({ on: () => () => undefined, close } as unknown as AudioEngine);
    await new Promise((resolve) => setTimeout(resolve));
  };
  const element = document.createElement("an-device-check") as DeviceCheck;
  document.body.append(element);
  await element.updateComplete;
  element.querySelector("button")?.click(); // Allow microphone
  await vi.waitFor(() => expect(opening.length).toBe(1), 5000);
  await finish(0);
  const list = element.querySelector("an-device-select");
  for (const count of [2, 3]) {
    list?.dispatchEvent(new CustomEvent("change", { detail: "microphone" }));
    await vi.waitFor(() => expect(opening.length).toBe(count), 5000);
    await element.updateComplete;
    expect(element.querySelector("an-device-select")).toBe(list);
  }
  await finish(2);
  await finish(1);
  expect(element.querySelector("an-device-select")).toBe(list);
  expect(opening.map(({ closed }) => closed)).toEqual([true, true, false]);
});
