import { expect, test } from "vitest";
import { apply, EMPTY_SYSTEM, type SessionRow, streamEvents } from "./live-state.ts";

function session(count: number, ms: number): SessionRow {
  const latency = count > 0 ? { count, ms } : null;
  return {
    kind: "audio_duplex",
    state: "active",
    worker: "w1",
    assigned_at: 1,
    attempt: 1,
    resumes: 0,
    latency,
  };
}

const SNAPSHOT = {
  at: 10,
  redis: true,
  workers: {},
  queue: { "7": { session: "a", position: 1 }, "8": { session: "b", position: 2 } },
  sessions: { s1: session(0, 0) },
  edges: {},
  events: [{ id: "1-0" }],
};

test("a snapshot replaces the tables, and the events if it has any", () => {
  const first = apply(EMPTY_SYSTEM, "snapshot", SNAPSHOT);
  const { events, ...tables } = SNAPSHOT;
  const second = apply(first, "snapshot", { ...tables, at: 11, queue: {} });
  expect(second.queue).toEqual({});
  expect(second.at).toBe(11);
  expect(second.events).toEqual(events);
  expect(apply(second, "alive", {})).toBe(second);
  expect(apply(second, "snapshot", { ...SNAPSHOT, events: [] }).events).toEqual([]);
});

test("events are appended and the oldest dropped", () => {
  const many = Array.from({ length: 299 }, (_, n) => ({ id: `2-${n}` }));
  const first = apply(EMPTY_SYSTEM, "snapshot", SNAPSHOT);
  const full = apply(first, "events", { events: [...many, { id: "3-0" }] });
  expect(full.events).toHaveLength(300);
  expect(full.events[0]?.id).toBe("2-0");
  expect(full.events.at(-1)?.id).toBe("3-0");
});

test("each latency is kept once until the session ends, also after a reconnect", () => {
  let system = apply(EMPTY_SYSTEM, "snapshot", SNAPSHOT);
  expect(system.waits).toEqual({ s1: [] });
  const answers = [session(1, 50), session(2, 70), session(2, 70), session(3, 70)];
  for (const s1 of answers) {
    system = apply(system, "snapshot", { ...SNAPSHOT, sessions: { s1 } });
  }
  expect(system.waits).toEqual({ s1: [50, 70, 70] });
  system = apply(system, "snapshot", { ...SNAPSHOT, sessions: { s1: session(4, 90) } });
  expect(system.waits).toEqual({ s1: [50, 70, 70, 90] });
  system = apply(system, "snapshot", { ...SNAPSHOT, sessions: {} });
  expect(system.waits).toEqual({});
});

test("events split into pieces are joined, also within a character", async () => {
  const bytes = new TextEncoder().encode(
    'event: change\ndata: {"name": "声音: b"}\n\nevent: alive\ndata: {}\n\nevent: lost',
  );
  for (const size of [1, 7, bytes.length]) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) {
          controller.enqueue(bytes.slice(at, at + size));
        }
        controller.close();
      },
    });
    const events = [];
    for await (const event of streamEvents(body)) events.push(event);
    expect(events).toEqual([
      { name: "change", data: '{"name": "声音: b"}' },
      { name: "alive", data: "{}" },
    ]);
  }
});
