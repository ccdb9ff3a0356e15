// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { AudioEngine } from "../audio/audio-engine.ts";
import { fakeStream, stubAudio, stubDevices } from "../audio/fake-audio.ts";
import { FakeWebSocket } from "../protocol/fake-websocket.ts";
import { AntiphonCall } from "./call-element.ts";

let call: AntiphonCall;

const status = (): string => call.shadowRoot?.querySelector("p")?.textContent ?? "";

beforeEach(() => {
  stubAudio();
  stubDevices(async () => fakeStream());
  vi.stubGlobal("WebSocket", FakeWebSocket);
  FakeWebSocket.all = [];
  call = new AntiphonCall();
  call.setAttribute("server", "http://edge/");
  call.lang = "en";
  document.body.append(call);
});
afterEach(() => {
  call.stop();
  FakeWebSocket.last.close();
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

async function connect(): Promise<void> {
  await call.start();
  FakeWebSocket.last.accept();
}

const QUEUED = { type: "queued", ticket_id: "1", position: 3, queue_length: 3, resume_token: "T" };

it("calls again while it hangs up", async () => {
  await connect();
  FakeWebSocket.last.say(QUEUED);
  const first = FakeWebSocket.last;
  call.stop();
  await connect();
  expect(FakeWebSocket.all).toHaveLength(2);
  expect(call.phase).toBe("connecting");
  first.say({ type: "stopped", session_id: "a" });
  expect(call.phase).toBe("connecting");
  await call.start();
  expect(FakeWebSocket.all).toHaveLength(2);
});

it("keeps the call when it is moved in the page, and hangs up when it is removed", async () => {
  await connect();
  const elsewhere = document.body.appendChild(document.createElement("div"));
  elsewhere.append(call);
  await Promise.resolve();
  expect(call.phase).toBe("connecting");
  call.remove();
  await Promise.resolve();
  expect(call.phase).toBe("stopping");
});

it("says that it hangs up, in the queue and without a connection", async () => {
  await connect();
  FakeWebSocket.last.say(QUEUED);
  expect(status()).toBe("Number 3 in the queue");
  FakeWebSocket.last.drop(1006);
  expect(status()).toBe("The connection is lost. Reconnecting");
  call.stop();
  expect(status()).toBe("Hanging up");
});

it("announces that it listens, and not whose turn it is", async () => {
  const opened = vi.spyOn(AudioEngine, "open");
  const live = (): unknown => call.shadowRoot?.querySelector("p")?.getAttribute("aria-live");
  await connect();
  FakeWebSocket.last.say({ type: "queue_done" });
  await vi.waitFor(() => expect(FakeWebSocket.last.sent).toHaveLength(1));
  FakeWebSocket.last.say({ type: "prepared", prompt_length: 1, recording_session_id: "r" });
  await vi.waitFor(() => expect(status()).toBe("Listening"));
  expect(live()).toBe("polite");
  const engine: AudioEngine = await opened.mock.results[0]?.value;
  const plays = engine.player as unknown as { emit: (event: string, detail: object) => void };
  plays.emit("gap", { gapMs: 0 });
  expect([status(), live()]).toEqual(["Speaking", "off"]);
  plays.emit("idle", { playedMs: 0 });
  expect([status(), live()]).toEqual(["Listening", "off"]);
  call.stop();
  expect([status(), live()]).toEqual(["Hanging up", "polite"]);
});

it("says that the key is not valid", async () => {
  const refusal = { code: "unauthorized", message: "unknown API key" };
  vi.stubGlobal("fetch", async (_: URL, { method }: RequestInit) =>
    method === "POST" ? { status: 426 } : Response.json(refusal, { status: 401 }),
  );
  await call.start();
  FakeWebSocket.last.drop(1006);
  await vi.waitFor(() => expect(status()).toBe("The key is not valid."));
});
