// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { fakeStream, fakeTrack, stubAudio, stubDevices } from "../audio/fake-audio.ts";
import { FakeWebSocket, RESULT } from "../protocol/fake-websocket.ts";
import { DuplexSession, type DuplexSessionOptions } from "./duplex-session.ts";

class Heard extends DuplexSession {
  async hear(chunks: number): Promise<void> {
    for (let n = 0; n < chunks; n++) {
      this.onChunk(new Float32Array(16_000));
      await vi.advanceTimersByTimeAsync(0);
    }
  }
}

let problems: string[];
let track: ReturnType<typeof fakeTrack>;

const kinds = (): unknown[] => FakeWebSocket.last.sent.map(({ type }) => type);

beforeEach(() => {
  vi.useFakeTimers();
  stubAudio();
  track = fakeTrack();
  stubDevices(async () => fakeStream(track));
  vi.stubGlobal("WebSocket", FakeWebSocket);
  problems = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function call(options: Partial<DuplexSessionOptions> = {}): Promise<Heard> {
  const session = new Heard({
    kind: "audio",
    prepare: { prefix_system_prompt: "" },
    connection: { base: "http://edge/" },
    audio: { silero: false },
    ...options,
  });
  session.on("problem", ({ code }) => problems.push(code));
  await session.start();
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "queue_done", seq: 1, resume_token: "T1" });
  await vi.advanceTimersByTimeAsync(0);
  FakeWebSocket.last.say({ type: "prepared", seq: 2, prompt_length: 1, recording_session_id: "r" });
  return session;
}

it("hangs up on a dead network, and closes the microphone", async () => {
  const session = await call();
  vi.spyOn(FakeWebSocket.last, "close").mockImplementation(() => undefined);
  session.stop();
  await vi.advanceTimersByTimeAsync(3000);
  expect(session.state.value).toMatchObject({ phase: "ended", end: { by: "user" } });
  expect(track.stop).toHaveBeenCalledOnce();
  FakeWebSocket.last.say({ type: "queue_done", seq: 3 });
  expect(session.state.value.phase).toBe("ended");
});

it("shows nothing that arrives after the user has hung up, not even a new turn", async () => {
  const session = await call();
  const unit = (seq: number, text: string, end_of_turn = false): void =>
    FakeWebSocket.last.say({ ...RESULT, seq, text, end_of_turn });
  unit(3, "One.");
  session.stop();
  unit(4, " Two.", true);
  unit(5, "Three.");
  FakeWebSocket.last.say({ type: "stopped", session_id: "adx_1", seq: 6 });
  expect(session.state.value.phase).toBe("ended");
  expect(session.state.value.transcript.map(({ text }) => text)).toEqual(["One."]);
});

const QUEUE = {
  type: "queued",
  seq: 1,
  resume_token: "T1",
  queue_length: 1,
  ticket_id: "t",
  estimated_wait_s: 1,
  reason: null,
};

it.each([
  ["sends what the user says while the call is prepared", [], true, 5],
  ["sends nothing of what the user says in the queue", [QUEUE], true, 0],
  ["sends no silence from before the call", [], false, 0],
  ["sends nothing of what the user says before a mute", [], true, 0, true],
])("%s", async (_, queue, speaks, count, mutes = false) => {
  const session = new Heard({
    kind: "audio",
    prepare: { prefix_system_prompt: "", config: { chunk_ms: 200 } },
    connection: { base: "http://edge/" },
    audio: { silero: false },
  });
  await session.start();
  const { capture } = session.audio as NonNullable<typeof session.audio>;
  const hear = (seconds: number, value: number): void => {
    for (let n = 0; n < seconds * 50; n++)
      capture["emit"]("block", new Float32Array(320).fill(value));
  };
  FakeWebSocket.last.accept();
  hear(1, speaks ? 0.3 : 0);
  if (mutes) session.setMuted(true);
  for (const message of queue) FakeWebSocket.last.say({ ...message, position: 1 });
  hear(0.02, 0);
  FakeWebSocket.last.say({ type: "queue_done", seq: 2, resume_token: "T1" });
  await vi.advanceTimersByTimeAsync(0);
  FakeWebSocket.last.say({ type: "prepared", seq: 3, prompt_length: 1, recording_session_id: "r" });
  await vi.advanceTimersByTimeAsync(0);
  const chunks = FakeWebSocket.last.sent.filter(({ type }) => type === "audio_chunk");
  expect(chunks).toHaveLength(count);
  session.stop();
});

it("takes a frame with the newest of several chunks", async () => {
  let frames = 0;
  const video = {
    get videoWidth(): number {
      frames += 1;
      throw new DOMException("tainted", "SecurityError");
    },
  } as HTMLVideoElement;
  const session = new Heard({
    kind: "omni",
    prepare: { prefix_system_prompt: "" },
    connection: { base: "http://edge/" },
    audio: { silero: false },
    videoElement: video,
  });
  await session.start();
  const { capture } = session.audio as NonNullable<typeof session.audio>;
  FakeWebSocket.last.accept();
  for (let n = 0; n < 100; n++) capture["emit"]("block", new Float32Array(320).fill(0.3));
  FakeWebSocket.last.say({ type: "queue_done", seq: 1, resume_token: "T1" });
  await vi.advanceTimersByTimeAsync(0);
  FakeWebSocket.last.say({ type: "prepared", seq: 2, prompt_length: 1, recording_session_id: "r" });
  await vi.advanceTimersByTimeAsync(0);
  expect(kinds().filter((kind) => kind === "audio_chunk")).toHaveLength(2);
  expect(frames).toBe(1);
  session.stop();
});

it("sends the sound without a video frame that cannot be read", async () => {
  let isTainted = true;
  const video = {
    get videoWidth() {
      if (isTainted) throw new DOMException("tainted", "SecurityError");
      return 0;
    },
    videoHeight: 0,
  } as HTMLVideoElement;
  const session = await call({ kind: "omni", videoElement: video });
  await session.hear(2);
  isTainted = false;
  await session.hear(1);
  expect(kinds().filter((kind) => kind === "audio_chunk")).toHaveLength(3);
  expect(problems).toEqual(["frame_unreadable"]);
  session.stop();
});
