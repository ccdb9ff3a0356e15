// @vitest-environment happy-dom

import type { LitElement } from "lit";
import { afterEach, expect, test } from "vitest";
import { devices } from "../audio/audio-settings.ts";
import { isBuilt } from "../ui/page-build.ts";
import "./device-select.ts";

const HEADSET = { kind: "audioinput", deviceId: "headset", label: "Headset" };
const BUILT_IN = { kind: "audioinput", deviceId: "built-in", label: "Built-in" };

async function shown(connected: object[]): Promise<HTMLSelectElement> {
  isBuilt.set(true);
  const mediaDevices = Object.assign(new EventTarget(), {
    enumerateDevices: async () => connected,
  });
  Object.defineProperty(navigator, "mediaDevices", { configurable: true, value: mediaDevices });
  const element = document.createElement("an-device-select") as LitElement & {
    look(): Promise<void>;
  };
  document.body.append(element);
  await element.look();
  await element.updateComplete;
  return element.querySelector("select") as HTMLSelectElement;
}

const labels = (field: HTMLSelectElement): (string | null)[] =>
  [...field.options].map(({ textContent }) => textContent);

afterEach(() => {
  document.body.replaceChildren();
  devices.update({ microphone: null });
});

test("a selected device that is not connected is shown and can be deselected", async () => {
  devices.update({ microphone: "headset" });
  const field = await shown([BUILT_IN]);
  expect(labels(field)).toEqual(["System default", "Built-in", "Selected device (not connected)"]);
  field.value = "";
  field.dispatchEvent(new Event("change"));
  expect(devices.value.microphone).toBeNull();
});

test("connected devices are listed once", async () => {
  devices.update({ microphone: "headset" });
  const field = await shown([BUILT_IN, HEADSET]);
  expect(labels(field)).toEqual(["System default", "Built-in", "Headset"]);
});
