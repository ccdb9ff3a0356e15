// @vitest-environment happy-dom

import { render } from "lit";
import { expect, it, vi } from "vitest";
import { fakeStream, fakeTrack, stubAudio, stubDevices } from "../audio/fake-audio.ts";
import { FakeWebSocket } from "../protocol/fake-websocket.ts";
import { afterCall } from "./after-call.ts";
import type { CallView } from "./call-actions.ts";
import { CallController } from "./call-controller.ts";
import { callSettings } from "./call-settings.ts";

vi.hoisted(() => vi.stubGlobal("fetch", () => new Promise(() => undefined)));

it("closes a microphone that opens when there is no call any more", async () => {
  const track = fakeTrack();
  stubDevices(async () => fakeStream(track));
  await new CallController().switchToMicrophone();
  expect(track.stop).toHaveBeenCalledOnce();
});

const BLOCKED = new DOMException("forbidden", "NotAllowedError");
const MISSING = new DOMException("none", "NotFoundError");

/** Starts a video call. Returns what it says about the camera, and its end screen. */
async function videoCall(
  open: (constraints: MediaStreamConstraints) => Promise<MediaStream>,
): Promise<{ cameraErrors: unknown[]; shown: string }> {
  vi.stubGlobal("isSecureContext", true);
  vi.stubGlobal("WebSocket", FakeWebSocket);
  stubAudio();
  stubDevices(open);
  const call = new CallController();
  call.setKind("omni");
  const cameraErrors: unknown[] = [];
  call.on("cameraError", (error) => cameraErrors.push(error));
  await call.start(async () => ({ values: callSettings("omni").value, file: null }));
  const screen = document.createElement("div");
  render(afterCall({ call, state: call.state.value } as unknown as CallView), screen);
  call.endCall();
  return { cameraErrors, shown: screen.textContent ?? "" };
}

it("goes on without a camera that is blocked, and says so", async () => {
  const { cameraErrors } = await videoCall(async ({ video }) =>
    video ? Promise.reject(BLOCKED) : fakeStream(),
  );
  expect(cameraErrors).toEqual([BLOCKED]);
});

it.each([
  ["both are blocked", BLOCKED, BLOCKED, ["Access to both is blocked"]],
  [
    "each has its own reason",
    MISSING,
    BLOCKED,
    ["No microphone found", "Camera access is blocked"],
  ],
])("says once that microphone and camera cannot be used: %s", async (_, sound, camera, reasons) => {
  const { cameraErrors, shown } = await videoCall(({ video }) =>
    Promise.reject(video ? camera : sound),
  );
  expect(cameraErrors).toEqual([]);
  expect(shown).toContain("Cannot use your microphone and camera");
  for (const reason of reasons) expect(shown).toContain(reason);
});
