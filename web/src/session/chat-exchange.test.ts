import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Player } from "../audio/player.ts";
import { audioPart, type Part, textPart } from "../media/parts.ts";
import { DONE, FakeWebSocket } from "../protocol/fake-websocket.ts";
import {
  type Answer,
  buildMessages,
  type ChatEntry,
  ChatExchange,
  partAt,
} from "./chat-exchange.ts";
import type { Problem } from "./session.ts";

const REQUEST = { messages: [{ role: "user" as const, content: "Hello" }] };

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeWebSocket);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function ask(): { exchange: ChatExchange; problems: Problem[] } {
  const exchange = new ChatExchange(REQUEST, { connection: { base: "http://x/" } });
  const problems: Problem[] = [];
  exchange.on("problem", (problem) => problems.push(problem));
  exchange.start();
  FakeWebSocket.last.accept();
  return { exchange, problems };
}

it("sends the request, waits in the queue and collects the answer", () => {
  const { exchange } = ask();
  expect(FakeWebSocket.last.sent).toEqual([REQUEST]);
  const queue = {
    ticket_id: "t",
    position: 2,
    queue_length: 3,
    eta_seconds: 9,
    estimated_wait_s: 9,
  };
  FakeWebSocket.last.say({ type: "queued", ...queue });
  expect(exchange.state.value).toMatchObject({ phase: "queued", queue: { position: 2, etaS: 9 } });
  FakeWebSocket.last.say({ type: "queue_done" });
  expect(exchange.state.value).toMatchObject({ phase: "preparing", queue: null });
  FakeWebSocket.last.say({ type: "prefill_done", input_tokens: 97 });
  FakeWebSocket.last.say({ type: "chunk", text_delta: "A " });
  FakeWebSocket.last.say({ type: "chunk", text_delta: "cat.", audio_data: "AAAAPw==" });
  expect(exchange.state.value).toMatchObject({ phase: "active", text: "A cat.", inputTokens: 97 });
  FakeWebSocket.last.say({
    ...DONE,
    text: "A cat.",
    generated_tokens: 4,
  });
  expect(exchange.state.value).toMatchObject({
    phase: "ended",
    generatedTokens: 4,
    recordingId: "r",
    end: { by: "user", code: "answered" },
  });
  expect(exchange.audio).toEqual(Float32Array.of(0.5));
});

it("knows why no worker takes the request", () => {
  const { exchange } = ask();
  const place = { ticket_id: "t", position: 1, queue_length: 1 };
  FakeWebSocket.last.say({ type: "queued", ...place, reason: "no_worker" });
  expect(exchange.state.value.queue).toMatchObject({ etaS: null, reason: "no_worker" });
  FakeWebSocket.last.say({ type: "queue_update", ...place, eta_seconds: 4, estimated_wait_s: 4 });
  expect(exchange.state.value.queue).toMatchObject({ etaS: 4, reason: null });
});

it("waits in the queue again when it loses its worker", () => {
  const { exchange } = ask();
  const place = { ticket_id: "t", queue_length: 1, eta_seconds: 0, estimated_wait_s: 0 };
  FakeWebSocket.last.say({ type: "queue_done" });
  FakeWebSocket.last.say({ type: "chunk", text_delta: "A " });
  FakeWebSocket.last.say({ type: "queue_update", position: 1, ...place });
  expect(exchange.state.value).toMatchObject({ phase: "active", queue: { position: 1 } });
  FakeWebSocket.last.say({ type: "queue_update", position: 1, ...place, stale: true });
  expect(exchange.state.value.queue).toMatchObject({ stale: true });
  FakeWebSocket.last.say({ type: "queue_update", position: 0, ...place });
  expect(exchange.state.value).toMatchObject({ phase: "active", queue: null, text: "A " });
});

it("stops and marks the answer as stopped", () => {
  const { exchange } = ask();
  FakeWebSocket.last.say({ type: "chunk", text_delta: "Once" });
  exchange.stop();
  expect(FakeWebSocket.last.sent.at(-1)).toEqual({ type: "stop" });
  FakeWebSocket.last.say({ type: "chunk", text_delta: " upon" });
  expect(exchange.state.value.phase).toBe("stopping");
  FakeWebSocket.last.say({ ...DONE, text: "Once upon", stopped: true });
  expect(exchange.state.value).toMatchObject({ stopped: true, end: { code: "stopped" } });
});

it("collects the audio that arrives after it was silenced, and plays none of it", () => {
  const player = { on: () => () => undefined, push: vi.fn(), flush: vi.fn(), endTurn: vi.fn() };
  const exchange = new ChatExchange(REQUEST, {
    connection: { base: "http://x/" },
    player: player as unknown as Player,
  });
  exchange.start();
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "chunk", text_delta: "A ", audio_data: "AAAAPw==" });
  expect(player.push).toHaveBeenCalledOnce();
  exchange.silence();
  expect(player.flush).toHaveBeenCalledOnce();
  FakeWebSocket.last.say({ type: "chunk", text_delta: "cat.", audio_data: "AAAAPw==" });
  FakeWebSocket.last.say({ ...DONE, text: "A cat.", audio_data: "AAAAPw==" });
  expect(player.push).toHaveBeenCalledOnce();
  expect(exchange.audio).toEqual(Float32Array.of(0.5, 0.5, 0.5));
});

it("ends if the server does not confirm the stop", () => {
  const { exchange } = ask();
  exchange.stop();
  vi.advanceTimersByTime(3000);
  expect(exchange.state.value).toMatchObject({ phase: "ended", end: { by: "user" } });
});

it("ends with the server's error", () => {
  const { exchange, problems } = ask();
  const message = "messages: too long";
  const error = { type: "error", error: message, message, code: "invalid_field" };
  FakeWebSocket.last.say(error);
  FakeWebSocket.last.drop(1008);
  expect(problems).toEqual([{ code: "invalid_field", message: "messages: too long" }]);
  expect(exchange.state.value.end).toEqual({
    by: "server",
    code: "invalid_field",
    message: "messages: too long",
  });
});

it.each([
  [1006, "connection", "lost"],
  [1012, "server", "server_shutdown"],
  [4409, "server", "replaced"],
  [4410, "connection", "lost"],
])("maps close code %i", (code, by, name) => {
  const { exchange } = ask();
  FakeWebSocket.last.drop(code);
  expect(exchange.state.value.end).toMatchObject({ by, code: name });
  expect(exchange.state.value.connection.state).toBe(by === "connection" ? "lost" : "none");
});

const ORIGIN = { code: "origin_not_allowed", message: "pages of this origin may not" };

it.each([
  ["is unreachable", () => Promise.reject(new TypeError("no network")), "unreachable"],
  ["has no server behind its proxy", async () => ({ status: 502 }), "unreachable"],
  ["passes no WebSockets", async () => ({ status: 426 }), "no_websockets"],
  ["has no WebSockets below its path", async () => ({ status: 404 }), "no_websockets"],
  ["refuses the origin", async () => Response.json(ORIGIN, { status: 403 }), ORIGIN.code],
])("says that the server %s", async (_, answer, code) => {
  const fetched = vi.fn(answer);
  vi.stubGlobal("fetch", fetched);
  const exchange = new ChatExchange(REQUEST, { connection: { base: "https://x/voice/" } });
  exchange.start();
  FakeWebSocket.last.drop(1006);
  await vi.waitFor(() =>
    expect(exchange.state.value.end).toMatchObject({ by: "connection", code }),
  );
  expect(exchange.state.value.connection.state).toBe("none"); // nothing was lost
  expect(String(fetched.mock.calls.at(0))).toMatch("https://x/voice/ws/chat?");
});

const WRONG_KEY = { code: "unauthorized", message: "unknown API key" };

it.each([
  [["antiphon.v1", "antiphon.key.a2V5-_8"], { "X-Api-Key": "key\u00fb\u00ff" }],
  [[], {}],
])("says that the server refuses the key of %j", async (protocols, headers) => {
  const fetched = vi.fn(async (url: URL, _: RequestInit) =>
    url.pathname === "/voice/api/capabilities"
      ? Response.json(WRONG_KEY, { status: 401 })
      : { status: 426 },
  );
  vi.stubGlobal("fetch", fetched);
  const exchange = new ChatExchange(REQUEST, {
    connection: { base: "https://x/voice/", protocols },
  });
  exchange.start();
  FakeWebSocket.last.drop(1006);
  await vi.waitFor(() =>
    expect(exchange.state.value.end).toEqual({ by: "connection", ...WRONG_KEY }),
  );
  expect(fetched.mock.calls.at(-1)?.[0].search).toBe("");
  expect(fetched.mock.calls.at(-1)?.[1]).toMatchObject({ headers });
});

it("does not take a key for refused that it cannot ask about", async () => {
  vi.stubGlobal("fetch", async (_: URL, { method }: RequestInit) => {
    if (method !== "POST") throw new TypeError("no CORS");
    return { status: 426 };
  });
  const exchange = new ChatExchange(REQUEST, { connection: { base: "https://x/" } });
  exchange.start();
  FakeWebSocket.last.drop(1006);
  await vi.waitFor(() => expect(exchange.state.value.end).toMatchObject({ code: "no_websockets" }));
});

it("is stopped while it asks why there is no connection", async () => {
  let answer = (_: { status: number }): void => undefined;
  const answered = new Promise<{ status: number }>((resolve) => {
    answer = resolve;
  });
  vi.stubGlobal("fetch", () => answered);
  const exchange = new ChatExchange(REQUEST, { connection: { base: "http://x/" } });
  exchange.start();
  FakeWebSocket.last.drop(1006);
  exchange.stop();
  answer({ status: 426 });
  await vi.waitFor(() => expect(exchange.state.value.end).toMatchObject({ by: "user" }));
});

it("reports an invalid message with its field and continues", () => {
  const { exchange, problems } = ask();
  FakeWebSocket.last.say({ type: "chunk", text_delta: 7 });
  expect(problems[0]).toMatchObject({ code: "bad_message" });
  expect(problems[0]?.message).toContain("text_delta");
  expect(exchange.state.value.end).toBeNull();
});

const videoElement: Part = {
  id: 900,
  type: "image",
  name: "cat.jpg",
  bytes: Uint8Array.of(1),
  url: "blob:1",
};
const audio = audioPart("hello.wav", Float32Array.of(0.5));

function answer(text: string): Answer {
  const how = { exchange: {} as never, refused: null, recordAllowed: true };
  return { role: "assistant", id: 2, text, audio: null, ...how };
}

const chat: ChatEntry[] = [
  { role: "user", id: 1, parts: [videoElement, textPart("What is this?")] },
  answer("A cat."),
  { role: "user", id: 3, parts: [audio] },
];

it("sends instructions, questions and answers in order", () => {
  const { messages } = buildMessages([textPart("Be brief.")], chat, new Set());
  expect(messages).toEqual([
    { role: "system", content: [{ type: "text", text: "Be brief." }] },
    {
      role: "user",
      content: [
        { type: "image", data: videoElement.bytes },
        { type: "text", text: "What is this?" },
      ],
    },
    { role: "assistant", content: [{ type: "text", text: "A cat." }] },
    { role: "user", content: [{ type: "audio", data: audio.samples }] },
  ]);
});

it("omits empty texts, failed answers and excluded parts", () => {
  const { messages } = buildMessages(
    [textPart("  ")],
    [...chat.slice(0, 1), answer(""), ...chat.slice(2)],
    new Set([videoElement.id]),
  );
  expect(messages.map(({ role, content }) => [role, content?.length])).toEqual([
    ["user", 1],
    ["user", 1],
  ]);
});

it.each([
  ["messages.1.content.0", videoElement],
  ["messages.1.content.0.data", videoElement],
  ["messages.3.content.0", audio],
  ["messages.9.content.0", null],
  ["enable_thinking", null],
  [undefined, null],
])("finds the part of %s", (field, expected) => {
  const history = buildMessages([textPart("Be brief.")], chat, new Set());
  expect(partAt(history, field)).toBe(expected);
});

it("does not explain its end by an error after which it went on", () => {
  const { exchange } = ask();
  const error = { type: "error", code: "invalid_field", error: "no", message: "no" };
  FakeWebSocket.last.say({ type: "queue_done" });
  FakeWebSocket.last.say({ type: "prefill_done", input_tokens: 1 });
  FakeWebSocket.last.say(error);
  FakeWebSocket.last.say({ type: "chunk", text_delta: "A " });
  FakeWebSocket.last.drop(1011);
  expect(exchange.state.value.end).toMatchObject({ by: "server", code: "1011", message: "" });
});
