// @vitest-environment happy-dom

import { beforeEach, expect, test, vi } from "vitest";
import { textPart } from "../media/parts.ts";
import { ChatLog } from "../session/chat-log.ts";
import { ChatKeeper } from "./kept-chat.ts";

const database = vi.hoisted(() => ({ isFull: false, written: [] as string[] }));

vi.mock("./database.ts", () => ({
  inStore: async (name: string, mode: string) => {
    if (mode === "readonly") return name === "conversations" ? [] : undefined;
    if (database.isFull) throw new DOMException("full", "QuotaExceededError");
    database.written.push(name);
    return undefined;
  },
}));
vi.mock("./conversations.ts", () => ({
  deleteConversation: async () => undefined,
  storedConversations: async () => [],
}));

const settled = () => new Promise((resolve) => setTimeout(resolve));

async function opened(): Promise<{ log: ChatLog; keeper: ChatKeeper; failures: boolean[] }> {
  const log = new ChatLog(() => Promise.reject(new Error("no voice")));
  const keeper = new ChatKeeper(log);
  await keeper.restore().catch(() => undefined); // this database lists no keys
  const failures: boolean[] = [];
  keeper.hasFailed.subscribe((failed) => failures.push(failed));
  return { log, keeper, failures };
}

/** Each question is stored when it is asked. */
function say(log: ChatLog, ...texts: string[]): void {
  const entries = texts.map((text, id) => ({ role: "user" as const, id, parts: [textPart(text)] }));
  log.state.set({ entries, excluded: new Set() });
}

beforeEach(() => {
  database.isFull = false;
  database.written = [];
  sessionStorage.clear();
});

test("a chat is complete when the browser has written it", async () => {
  const { log, keeper, failures } = await opened();
  say(log, "One?");
  expect(keeper.isComplete).toBe(false);
  await settled();
  expect([keeper.isComplete, keeper.keeps, failures]).toEqual([true, true, []]);
  expect(database.written).toEqual(["chats", "conversations"]);
});

test("a full storage is reported once, until a write succeeds", async () => {
  const { log, keeper, failures } = await opened();
  database.isFull = true;
  say(log, "One?");
  await settled();
  say(log, "One?", "Two?");
  await settled();
  expect([keeper.isComplete, keeper.keeps, failures]).toEqual([false, false, [true]]);
  database.isFull = false;
  say(log, "One?", "Two?", "Three?");
  await settled();
  expect([keeper.isComplete, keeper.keeps, failures]).toEqual([true, true, [true, false]]);
});

test("a chat that was not stored is written when another begins", async () => {
  const { log, keeper } = await opened();
  database.isFull = true;
  say(log, "One?");
  await settled();
  database.isFull = false;
  keeper.startNew();
  await settled();
  expect(database.written).toEqual(["chats", "conversations"]);
});
