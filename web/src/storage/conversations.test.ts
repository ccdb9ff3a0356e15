import { beforeEach, expect, test, vi } from "vitest";
import type { DuplexSessionState } from "../session/duplex-session.ts";
import { Store } from "../state/store.ts";
import { keepConversation, renameConversation, type StoredConversation } from "./conversations.ts";

const { rows, onRead } = vi.hoisted(() => ({
  rows: new Map<string, StoredConversation>(),
  /** Called when the kept sound is read. */
  onRead: { call: () => {} },
}));

/** A request of the database, which succeeds when its transaction runs. */
class FakeRequest extends EventTarget {
  result: unknown;
}

vi.mock("./database.ts", () => ({
  inStore: async (name: string, _mode: string, run: (store: unknown) => FakeRequest) => {
    const result = (value: unknown) => Object.assign(new FakeRequest(), { result: value });
    const request = run({
      getAll: () => result(name === "conversations" ? [...rows.values()] : []),
      get: (id: string) => result(rows.get(id)),
      put: (row: StoredConversation) => result(rows.set(row.id, row) && row.id),
    });
    request.dispatchEvent(new Event("success"));
    if (name === "recordings") onRead.call();
    return request.result;
  },
}));

/** A call of which the user said `words`. */
function call(phase: "active" | "ended", ...words: string[]): DuplexSessionState {
  const transcript = words.map((text, id) => ({ id, role: "user", text }));
  return { phase, sessionId: "adx_1", recordingId: "r_1", transcript } as never;
}

beforeEach(() => rows.clear());

test("a call keeps the name that it gets while it runs", async () => {
  const states = new Store(call("active"));
  vi.useFakeTimers();
  keepConversation(states, "audio_duplex", true);
  states.set(call("active", "Hello."));
  await vi.advanceTimersByTimeAsync(1000);
  expect(rows.get("adx_1")).toMatchObject({ title: "", lines: [{ text: "Hello." }] });
  await renameConversation("r_1", "Greetings");
  states.set(call("ended", "Hello.", "Bye."));
  await vi.advanceTimersByTimeAsync(0);
  vi.useRealTimers();
  const lines = [{ text: "Hello." }, { text: "Bye." }];
  expect(rows.get("adx_1")).toMatchObject({ title: "Greetings", lines });
});

test("a new name does not bring back older lines", async () => {
  const row: StoredConversation = {
    id: "adx_1",
    kind: "audio_duplex",
    startedAt: Date.now(),
    durationMs: 1000,
    recordingId: "r_1",
    lines: [],
    title: "",
  };
  rows.set(row.id, row);
  onRead.call = () => rows.set(row.id, { ...row, durationMs: 7000 });
  await renameConversation("r_1", "Greetings");
  expect(rows.get("adx_1")).toMatchObject({ title: "Greetings", durationMs: 7000 });
});
