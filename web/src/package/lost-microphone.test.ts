// @vitest-environment happy-dom

import { afterEach, expect, it, vi } from "vitest";
import { fakeStream, fakeTrack, stubAudio, stubDevices } from "../audio/fake-audio.ts";
import { FakeWebSocket } from "../protocol/fake-websocket.ts";
import { AntiphonCall } from "./call-element.ts";

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

it("says that the microphone has stopped", async () => {
  stubAudio();
  vi.stubGlobal("WebSocket", FakeWebSocket);
  const track = fakeTrack();
  stubDevices(async () => fakeStream(track));
  const call = new AntiphonCall();
  call.setAttribute("server", "http://edge/");
  call.lang = "en";
  document.body.append(call);
  await call.start();
  const status = (): string => call.shadowRoot?.querySelector("p")?.textContent ?? "";
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "queue_done" });
  await vi.waitFor(() => expect(FakeWebSocket.last.sent).toHaveLength(1));
  FakeWebSocket.last.say({ type: "prepared", prompt_length: 1, recording_session_id: "r" });
  await vi.waitFor(() => expect(status()).toBe("Listening"));
  track.dispatchEvent(new Event("ended"));
  expect(status()).toBe("The microphone has stopped. Hang up, and call again.");
  FakeWebSocket.last.close();
});
