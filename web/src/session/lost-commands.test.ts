// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { fakeStream, fakeTrack, stubAudio, stubDevices } from "../audio/fake-audio.ts";
import { FakeWebSocket } from "../protocol/fake-websocket.ts";
import { DuplexSession } from "./duplex-session.ts";
import { HalfDuplexSession } from "./half-duplex-session.ts";

const PREPARED = { type: "prepared", seq: 2, prompt_length: 1, recording_session_id: "r" };
const ERROR = { type: "error", error: "no", message: "no" };

class Heard extends DuplexSession {
  hear(): void {
    this.onChunk(new Float32Array(16_000));
  }
}

let session: Heard;
let problems: string[];

const commands = (): unknown[] =>
  FakeWebSocket.last.sent
    .map(({ type }) => type)
    .filter((type) => type !== "client_diagnostic" && type !== "playback_ack");

/** Accepts the next attempt to resume. */
async function resume(): Promise<void> {
  await vi.advanceTimersByTimeAsync(200);
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "resumed", seq: 2, resume_token: "T2" });
}

async function assign(): Promise<void> {
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "queue_done", seq: 1, resume_token: "T1" });
  await vi.advanceTimersByTimeAsync(0);
}

beforeEach(async () => {
  vi.useFakeTimers();
  stubAudio();
  stubDevices(async () => fakeStream());
  vi.stubGlobal("WebSocket", FakeWebSocket);
  FakeWebSocket.all = [];
  session = new Heard({
    kind: "audio",
    prepare: { prefix_system_prompt: "" },
    connection: { base: "http://edge/" },
    audio: { silero: false },
  });
  problems = [];
  session.on("problem", ({ code }) => problems.push(code));
});
afterEach(() => {
  session.stop();
  FakeWebSocket.last.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function call(): Promise<void> {
  await session.start();
  await assign();
  FakeWebSocket.last.say(PREPARED);
}

it("repeats a prepare that was lost, and ignores that the server has it", async () => {
  await session.start();
  await assign();
  expect(commands()).toEqual(["prepare"]);
  FakeWebSocket.last.drop(1006);
  await resume();
  expect(commands()).toEqual(["prepare"]);
  FakeWebSocket.last.say({ ...ERROR, code: "not_ready" });
  expect(session.state.value.phase).toBe("preparing");
  FakeWebSocket.last.say(PREPARED);
  expect(session.state.value.phase).toBe("active");
  expect(problems).toEqual([]);
  FakeWebSocket.last.say({ ...ERROR, code: "not_ready" });
  expect(problems).toEqual(["not_ready"]);
});

it("repeats a lost pause, and ignores the answer if the pause had arrived", async () => {
  await call();
  session.pause();
  FakeWebSocket.last.drop(1006);
  await resume();
  expect(commands()).toEqual(["pause"]);
  FakeWebSocket.last.say({ type: "paused", seq: 3, timeout: 60 }); // of the first one
  FakeWebSocket.last.say({ ...ERROR, code: "paused" });
  expect(problems).toEqual([]);
  expect(session.state.value.phase).toBe("paused");
});

it("repeats nothing that was answered", async () => {
  await call();
  session.pause();
  FakeWebSocket.last.say({ type: "paused", seq: 3, timeout: 60 });
  FakeWebSocket.last.drop(1006);
  await resume();
  expect(commands()).toEqual([]);
});

it("sends once what was said while the connection was lost", async () => {
  await call();
  FakeWebSocket.last.drop(1006);
  session.pause();
  await resume();
  expect(commands()).toEqual(["pause"]);
});

it.each([
  ["5 s of speech", 5, true, ["speech_lost"]],
  ["2 s of speech, which it sends", 2, true, []],
  ["5 s of silence", 5, false, []],
])("after %s while the connection was lost", async (_, seconds, speaks, lost) => {
  await call();
  const audio = session.audio as NonNullable<typeof session.audio>;
  vi.spyOn(audio, "userSpeaks", "get").mockReturnValue(speaks);
  FakeWebSocket.last.drop(1006);
  for (let n = 0; n < seconds; n++) {
    session.hear();
    await Promise.resolve();
  }
  expect(problems).toEqual([]);
  await resume();
  expect(problems).toEqual(lost);
  expect(commands()).toHaveLength(Math.min(3, seconds));
});

it("replaces a connection that died in a pause, and resumes on the next one", async () => {
  await call();
  session.pause();
  FakeWebSocket.last.say({ type: "paused", seq: 3, timeout: 60 });
  await vi.advanceTimersByTimeAsync(60_000);
  session.resume();
  const dead = FakeWebSocket.last;
  await vi.advanceTimersByTimeAsync(4000);
  await resume();
  expect(FakeWebSocket.last).not.toBe(dead);
  expect(commands()).toEqual(["resume"]);
  FakeWebSocket.last.say({ type: "resumed", seq: 4 });
  await vi.advanceTimersByTimeAsync(5000);
  expect(FakeWebSocket.all).toHaveLength(2);
});

it("replaces the connection when the network returns", async () => {
  await call();
  session.pause();
  FakeWebSocket.last.say({ type: "paused", seq: 3, timeout: 60 });
  dispatchEvent(new Event("online"));
  expect(session.state.value.connection.state).toBe("reconnecting");
  await resume();
  expect(session.state.value.connection.state).toBe("open");
  session.stop();
  FakeWebSocket.last.say({ type: "stopped", session_id: "a", seq: 4 });
  dispatchEvent(new Event("online"));
  expect(FakeWebSocket.all).toHaveLength(2);
});

it.each([false, true])("stops when the page is left, persisted: %s", async (persisted) => {
  await call();
  const leave = () => dispatchEvent(Object.assign(new Event("pagehide"), { persisted }));
  leave();
  leave();
  expect(session.state.value.phase).toBe("stopping");
  expect(commands()).toEqual(["prepare", "stop"]);
  FakeWebSocket.last.say({ type: "stopped", session_id: "a", seq: 3 });
  const stop = vi.spyOn(session, "stop");
  leave();
  expect(stop).not.toHaveBeenCalled();
});

it("mutes the microphone if the session was muted before it opened", async () => {
  const track = fakeTrack();
  stubDevices(async () => fakeStream(track));
  session.setMuted(true);
  await session.start();
  expect(session.audio?.capture.muted).toBe(true);
  expect(track.enabled).toBe(false);
});

it("starts although a listener of its state throws", async () => {
  const uncaught = vi.fn();
  vi.stubGlobal("queueMicrotask", uncaught);
  await session.start();
  await assign();
  const begin = vi.spyOn(session.audio as NonNullable<typeof session.audio>, "start");
  session.state.subscribe(({ phase }) => {
    if (phase === "active") throw new Error("broken");
  });
  FakeWebSocket.last.say(PREPARED);
  expect(begin).toHaveBeenCalledOnce();
  expect(uncaught).toHaveBeenCalled();
});

it("replaces a half-duplex connection in which an answer does not continue, once", async () => {
  class HeardInTurns extends HalfDuplexSession {
    hear(): void {
      this.onChunk(new Float32Array(3200));
    }
  }
  const half = new HeardInTurns({ prepare: {}, connection: { base: "http://edge/" } });
  await half.start();
  await assign();
  const timed = { ...PREPARED, session_id: "hdx_1", timeout_s: 300 };
  FakeWebSocket.last.say(timed);
  await vi.advanceTimersByTimeAsync(20_000);
  half.hear();
  expect(half.state.value.connection.state).toBe("open"); // nothing is expected
  FakeWebSocket.last.say({ type: "generating", seq: 3, speech_duration_ms: 900 });
  await vi.advanceTimersByTimeAsync(29_000);
  half.hear();
  expect(half.state.value.connection.state).toBe("open");
  await vi.advanceTimersByTimeAsync(1500);
  half.hear();
  expect(half.state.value.connection.state).toBe("reconnecting");
  await resume();
  await vi.advanceTimersByTimeAsync(20_000);
  half.hear();
  expect(half.state.value.connection.state).toBe("open");
  half.stop();
  FakeWebSocket.last.close();
});
