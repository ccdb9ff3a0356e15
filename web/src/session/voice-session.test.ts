import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { AudioEngine } from "../audio/audio-engine.ts";
import type { DuplexClientMessage } from "../protocol/client-messages.ts";
import { connectDuplex, type DuplexClient } from "../protocol/clients.ts";
import { FakeWebSocket } from "../protocol/fake-websocket.ts";
import type { DuplexServerMessage } from "../protocol/server-messages.ts";
import { NEW_SESSION } from "./session.ts";
import {
  type LateConfig,
  VoiceSession,
  type VoiceSessionOptions,
  type VoiceSessionState,
} from "./voice-session.ts";

const closed = vi.fn();

class Talk extends VoiceSession<VoiceSessionState, DuplexServerMessage, DuplexClientMessage> {
  constructor(options: VoiceSessionOptions) {
    super({ ...NEW_SESSION, muted: false, sourceEnded: false }, options);
  }

  protected override connect(): DuplexClient {
    return connectDuplex("adx_1", { base: "http://x/", binary: false });
  }

  protected override prepareMessage(config: LateConfig): DuplexClientMessage {
    return { type: "prepare", prefix_system_prompt: "", config };
  }

  protected override stopMessage(): DuplexClientMessage {
    return { type: "stop" };
  }

  protected override onChunk(): void {}

  protected override onMessage(message: DuplexServerMessage): void {
    if (message.type === "queue_done") void this.prepare();
    if (message.type === "error") this.onError(message);
  }
}

beforeEach(() => {
  closed.mockClear();
  const engine = { on: vi.fn(), close: closed, player: { flush: vi.fn() } };
  vi.spyOn(AudioEngine, "open").mockResolvedValue(engine as unknown as AudioEngine);
  vi.stubGlobal("WebSocket", FakeWebSocket);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

it("prepares without a greeting if the engine cannot greet, once", async () => {
  const session = new Talk({ greeting: async () => "Hello!", voice: async () => "heart" });
  await session.start();
  const socket = FakeWebSocket.last;
  socket.accept();
  socket.say({ type: "queue_done" });
  const prepare = { type: "prepare", prefix_system_prompt: "" };
  const greeted = { ...prepare, config: { greeting: "Hello!", voice: "heart" } };
  await vi.waitFor(() => expect(socket.sent).toEqual([greeted]));
  const error = { type: "error", code: "engine_error", error: "no", message: "no" };
  socket.say({ ...error, field: "config.greeting" });
  expect(socket.sent).toEqual([greeted, { ...prepare, config: { voice: "heart" } }]);
  expect(session.state.value.phase).toBe("preparing");
  socket.say({ ...error, field: "config.greeting" });
  expect(socket.sent).toHaveLength(2);
  expect(session.state.value).toMatchObject({ phase: "ended", end: { field: "config.greeting" } });
});

it.each([
  ["greeting", { voice: "heart" }],
  ["voice", { greeting: "Hello!" }],
])("prepares without a %s that cannot be read", async (name, config) => {
  const failing = { [name]: () => Promise.reject(new Error("no shop")) };
  const session = new Talk({
    greeting: async () => "Hello!",
    voice: async () => "heart",
    ...failing,
  });
  const problem = vi.fn();
  session.on("problem", problem);
  await session.start();
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "queue_done" });
  const prepare = { type: "prepare", prefix_system_prompt: "", config };
  await vi.waitFor(() => expect(FakeWebSocket.last.sent).toEqual([prepare]));
  expect(problem.mock.calls).toEqual([[{ code: `${name}_failed`, message: "no shop" }]]);
});

it("stops a session that ends before it is prepared", async () => {
  const session = new Talk({});
  await session.start();
  const socket = FakeWebSocket.last;
  socket.accept();
  socket.say({ type: "queue_done", seq: 1, resume_token: "T1" });
  await vi.waitFor(() => expect(socket.sent).toHaveLength(1));
  const error = { type: "error", code: "invalid_field", error: "no", message: "no such voice" };
  socket.say({ ...error, field: "config.voice" });
  expect(session.state.value).toMatchObject({ phase: "ended", end: { by: "server" } });
  expect(socket.sent.map(({ type }) => type)).toEqual(["prepare", "stop"]);
});

it("ends, and closes the microphone, if the browser refuses to connect", async () => {
  const refuse = (): never => {
    throw new SyntaxError("the protocol is not allowed");
  };
  vi.stubGlobal(
    "WebSocket",
    class {
      constructor() {
        refuse();
      }
    },
  );
  const session = new Talk({});
  await session.start();
  expect(session.state.value).toMatchObject({
    phase: "ended",
    end: { by: "connection", code: "not_opened", message: "the protocol is not allowed" },
  });
  expect(closed).toHaveBeenCalledOnce();
});
