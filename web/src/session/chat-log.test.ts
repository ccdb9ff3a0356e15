import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type Part, textPart } from "../media/parts.ts";
import { DONE, FakeWebSocket } from "../protocol/fake-websocket.ts";
import type { Answer } from "./chat-exchange.ts";
import { ChatLog, CLEARED } from "./chat-log.ts";

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeWebSocket);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function newLog(): ChatLog {
  return new ChatLog(async () => ({
    system: [textPart("Be brief.")],
    request: { record: false },
    exchange: { connection: { base: "http://x/", binary: false } },
  }));
}

const videoElement: Part = {
  id: 900,
  type: "image",
  name: "cat.jpg",
  bytes: Uint8Array.of(1),
  url: "blob:1",
};

function reply(text: string): void {
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ ...DONE, text });
  FakeWebSocket.last.drop(1000);
}

function refuse(field: string): void {
  FakeWebSocket.last.accept();
  const message = "cannot see";
  FakeWebSocket.last.say({ type: "error", error: message, message, code: "invalid_field", field });
  FakeWebSocket.last.drop(1008);
}

const texts = (log: ChatLog): string[] =>
  log.state.value.entries.map((one) =>
    one.role === "user"
      ? one.parts.map((part) => ("text" in part ? part.text : "")).join()
      : one.text,
  );
/** The last request after the connection opens. */
function lastRequest(): { roles: string[]; text: string } {
  FakeWebSocket.last.accept();
  const messages = (FakeWebSocket.last.sent[0]?.["messages"] ?? []) as { role: string }[];
  return {
    roles: messages.map(({ role }) => role),
    text: JSON.stringify(FakeWebSocket.last.sent[0]),
  };
}

const answer = (log: ChatLog): Answer => log.state.value.entries.at(-1) as Answer;

async function conversation(): Promise<ChatLog> {
  const log = newLog();
  await log.ask([textPart("One?")]);
  reply("1");
  await log.ask([textPart("Two?")]);
  reply("2");
  return log;
}

it("sends all earlier messages", async () => {
  const log = await conversation();
  expect(texts(log)).toEqual(["One?", "1", "Two?", "2"]);
  expect(FakeWebSocket.last.sent[0]).toMatchObject({ record: false });
  expect(lastRequest().roles).toEqual(["system", "user", "assistant", "user"]);
});

it("ignores a second question during an answer", async () => {
  const log = newLog();
  await log.ask([textPart("One?")]);
  await log.ask([textPart("Two?")]);
  expect(texts(log)).toEqual(["One?", ""]);
  expect(log.busy).toBe(true);
  reply("1");
  expect(log.busy).toBe(false);
});

/** A log whose requests are prepared when `go` is called. */
function slowLog(): { log: ChatLog; go: () => void } {
  let go = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  const log = new ChatLog(async () => {
    await gate;
    return {
      system: [],
      request: {},
      exchange: { connection: { base: "http://x/", binary: false } },
    };
  });
  return { log, go };
}

it("shows a question while its request is prepared", async () => {
  const { log, go } = slowLog();
  const shown: string[][] = [];
  log.state.subscribe(() => shown.push(texts(log)));
  const asking = log.ask([textPart("One?")]);
  expect(shown).toEqual([["One?", ""]]);
  expect(log.busy).toBe(true);
  go();
  await asking;
  expect(texts(log)).toEqual(["One?", ""]);
});

it("keeps what a tab has restored out of a chat that was begun before", async () => {
  const stored = structuredClone((await conversation()).state.value);
  const { log, go } = slowLog();
  const asking = log.ask([textPart("New?")]);
  log.restore(stored);
  go();
  await asking;
  expect(texts(log)).toEqual(["New?", ""]);
});

it.each(["stop", "clear"] as const)("%s cancels a request that is prepared", async (method) => {
  const { log, go } = slowLog();
  const asking = log.ask([textPart("One?")]);
  log[method]();
  expect(log.busy).toBe(false);
  await expect(asking).rejects.toMatchObject({ name: "AbortError" });
  expect(log.state.value.entries).toEqual([]);
  go();
  await log.ask([textPart("Two?")]);
  expect(texts(log)).toEqual(["Two?", ""]);
});

it("keeps a question that is prepared when the user leaves", async () => {
  const { log } = slowLog();
  const asking = log.ask([textPart("One?"), videoElement]);
  log.leave();
  await asking;
  expect(log.busy).toBe(false);
  expect(texts(log)).toEqual(["One?,", ""]);
  expect(answer(log).exchange).toMatchObject({ phase: "ended", stopped: true });
  const again = newLog();
  again.restore(structuredClone(log.state.value));
  await again.again();
  expect(lastRequest()).toMatchObject({ roles: ["system", "user"] });
});

it("keeps the edited text of an answer while a request is prepared", async () => {
  const { log, go } = slowLog();
  log.restore(structuredClone((await conversation()).state.value));
  const first = log.state.value.entries[1]?.id ?? 0;
  const asking = log.ask([textPart("Three?")]);
  log.rewrite(first, "I");
  log.stop();
  await expect(asking).rejects.toMatchObject({ name: "AbortError" });
  expect(texts(log)).toEqual(["One?", "I", "Two?", "2"]);
  const next = log.ask([textPart("Three?")]);
  log.rewrite(first, "II");
  go();
  await next;
  expect(texts(log)).toEqual(["One?", "II", "Two?", "2", "Three?", ""]);
});

it("takes a question back whose request cannot be prepared", async () => {
  const log = new ChatLog(() => Promise.reject(new Error("no voice")));
  await expect(log.ask([textPart("One?")])).rejects.toThrow("no voice");
  expect(log.state.value.entries).toEqual([]);
  expect(log.busy).toBe(false);
});

it("replaces the last answer when asked again", async () => {
  const log = await conversation();
  await log.again();
  reply("two");
  expect(texts(log)).toEqual(["One?", "1", "Two?", "two"]);
});

it("asks no earlier question again after the last one was removed", async () => {
  const log = await conversation();
  log.remove(log.state.value.entries[2]?.id ?? 0);
  expect(log.canAskAgain).toBe(false);
  await log.again();
  expect(texts(log)).toEqual(["One?", "1", "2"]);
});

it("removes everything after an edited question", async () => {
  const log = await conversation();
  await log.edit(log.state.value.entries[0]?.id ?? 0, [textPart("Three?")]);
  expect(lastRequest().roles).toEqual(["system", "user"]);
  reply("3");
  expect(texts(log)).toEqual(["Three?", "3"]);
});

it("sends the edited text of an answer", async () => {
  const log = await conversation();
  log.rewrite(answer(log).id, "II");
  await log.ask([textPart("Three?")]);
  expect(lastRequest().text).toContain("II");
});

it("deletes a message, and restores it at its place", async () => {
  const log = await conversation();
  const undo = log.remove(log.state.value.entries[0]?.id ?? 0);
  expect(texts(log)).toEqual(["1", "Two?", "2"]);
  undo();
  expect(texts(log)).toEqual(["One?", "1", "Two?", "2"]);
  const late = log.remove(log.state.value.entries[3]?.id ?? 0);
  await log.ask([textPart("Three?")]);
  late();
  late();
  expect(texts(log)).toEqual(["One?", "1", "Two?", "2", "Three?", ""]);
  reply("3");
  const first = log.remove(log.state.value.entries[0]?.id ?? 0);
  const second = log.remove(log.state.value.entries[0]?.id ?? 0);
  first();
  second();
  expect(texts(log)).toEqual(["One?", "1", "Two?", "2", "Three?", "3"]);
});

it("keeps a restored message when a request cannot be prepared", async () => {
  const { log } = slowLog();
  log.restore(structuredClone((await conversation()).state.value));
  const undo = log.remove(log.state.value.entries[1]?.id ?? 0);
  const asking = log.ask([textPart("Three?")]);
  undo();
  log.stop();
  await expect(asking).rejects.toMatchObject({ name: "AbortError" });
  expect(texts(log)).toEqual(["One?", "1", "Two?", "2"]);
});

it.each([
  ["cleared", ["Three?", ""], (log: ChatLog) => log.clear()],
  [
    "edited before it",
    ["One!", "", "Three?", ""],
    (log: ChatLog) => log.edit(1, [textPart("One!")]),
  ],
] as const)("restores no message of a chat that was %s", async (_, expected, change) => {
  const log = await conversation();
  const undo = log.remove(log.state.value.entries[1]?.id ?? 0);
  await change(log);
  if (log.busy) reply("");
  await log.ask([textPart("Three?")]);
  undo();
  expect(texts(log)).toEqual(expected);
});

it("tells that the chat of a request was cleared", async () => {
  const { log } = slowLog();
  const asking = log.ask([textPart("One?")]);
  log.clear();
  await expect(asking).rejects.toBe(CLEARED);
  const stopped = log.ask([textPart("Two?")]);
  log.stop();
  await expect(stopped).rejects.not.toBe(CLEARED);
});

it("returns the rejected part, and can exclude its type", async () => {
  const log = newLog();
  await log.ask([videoElement, textPart("What is this?")]);
  refuse("messages.1.content.0");
  expect(answer(log)).toMatchObject({
    recordAllowed: false,
    refused: videoElement,
    exchange: { end: { by: "server" } },
  });
  log.exclude(log.partsOf("image"));
  expect(log.partsOf("image")).toEqual([]);
  await log.again();
  expect(lastRequest().text).not.toContain("image");
  reply("I cannot see it.");
  expect(answer(log)).toMatchObject({ refused: null, text: "I cannot see it." });
});

it("stops the answer when the chat is cleared", async () => {
  const log = newLog();
  await log.ask([textPart("One?")]);
  FakeWebSocket.last.accept();
  log.clear();
  expect(FakeWebSocket.last.sent.at(-1)).toEqual({ type: "stop" });
  FakeWebSocket.last.say({ ...DONE, text: "too late", stopped: true });
  expect(log.state.value.entries).toEqual([]);
  expect(log.busy).toBe(false);
});

it("restores a stored chat with new ids, and counts an incomplete answer as stopped", async () => {
  const before = newLog();
  await before.ask([textPart("one"), videoElement]);
  before.exclude([videoElement]);
  const stored = structuredClone(before.state.value);
  const log = newLog();
  log.restore(stored);
  expect(texts(log)).toEqual(["one,", ""]);
  expect(answer(log).exchange).toMatchObject({ phase: "ended", stopped: true });
  expect(log.busy).toBe(false);
  const [image] = log.partsOf("image");
  expect(image).toBeUndefined(); // still excluded
  await log.ask([textPart("two")]);
  expect(lastRequest().roles).toEqual(["system", "user", "user"]);
  expect(new Set(log.state.value.entries.map(({ id }) => id)).size).toBe(4);
});
