import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeWebSocket } from "./fake-websocket.ts";
import { RESUME_WINDOW_MS, ResumableSocket } from "./resumable-socket.ts";

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeWebSocket);
  FakeWebSocket.all = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function open(): { socket: ResumableSocket; log: string[]; received: unknown[] } {
  const socket = new ResumableSocket(new URL("ws://x/ws/duplex/adx_1?a=b"), { protocols: ["p"] });
  const log: string[] = [];
  const received: unknown[] = [];
  socket.on("state", (state) => log.push(state));
  socket.on("closed", ({ code }) => log.push(`closed ${code}`));
  socket.on("problem", (problem) => log.push(problem));
  socket.on("message", (message) => received.push(message["type"]));
  return { socket, log, received };
}

/** A resumable session that has received message 4. */
function resumable(): ReturnType<typeof open> {
  const opened = open();
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "queue_done", resume_token: "T1", seq: 4 });
  return opened;
}

describe("a connection", () => {
  it("requests resume in the URL and offers the subprotocols", () => {
    open();
    expect(FakeWebSocket.last.url.href).toBe("ws://x/ws/duplex/adx_1?a=b&resume=1");
    expect(FakeWebSocket.last.protocols).toEqual(["p"]);
  });

  it("sends queued messages in order when it opens", () => {
    const { socket } = open();
    socket.send({ n: 1 });
    socket.send({ n: 2 });
    FakeWebSocket.last.accept();
    expect(FakeWebSocket.last.sent).toEqual([{ n: 1 }, { n: 2 }]);
  });

  it("ends when the server closes it", () => {
    const { log } = resumable();
    FakeWebSocket.last.drop(1000);
    expect(log).toEqual(["open", "closed", "closed 1000"]);
  });

  it("ends when it drops without a resume token", () => {
    const { log } = open();
    FakeWebSocket.last.accept();
    FakeWebSocket.last.drop(1006);
    expect(log).toEqual(["open", "closed", "closed 1006"]);
  });

  it("reports invalid frames and continues", () => {
    const { log, received } = resumable();
    FakeWebSocket.last.onmessage({ data: "{" });
    FakeWebSocket.last.say({ type: "result", seq: 5 });
    expect(log[1]).toContain("cannot be read");
    expect(received).toEqual(["queue_done", "result"]);
  });
});

describe("a lost connection", () => {
  it("resumes with the token and the last sequence number", () => {
    const { log, received } = resumable();
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200);
    expect(FakeWebSocket.last.url.searchParams.get("resume_token")).toBe("T1");
    expect(FakeWebSocket.last.url.searchParams.get("seq")).toBe("4");
    expect(FakeWebSocket.last.url.searchParams.get("attempt")).toBe("1");
    FakeWebSocket.last.accept();
    expect(log.at(-1)).toBe("reconnecting");
    FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T2" });
    expect(log.at(-1)).toBe("open");
    FakeWebSocket.last.say({ type: "result", seq: 4 });
    FakeWebSocket.last.say({ type: "result", seq: 5 });
    expect(received).toEqual(["queue_done", "result"]);
  });

  it("uses the newest token for the next resume", () => {
    resumable();
    FakeWebSocket.last.drop(1012);
    vi.advanceTimersByTime(200);
    FakeWebSocket.last.accept();
    FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T2" });
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200);
    expect(FakeWebSocket.last.url.searchParams.get("resume_token")).toBe("T2");
  });

  it("sends all queued commands and the newest three seconds of audio", () => {
    const { socket } = resumable();
    FakeWebSocket.last.drop(1006);
    for (let n = 0; n < 6; n++) socket.send({ chunk: n }, { perishableMs: 1000 });
    socket.send({ type: "pause" });
    vi.advanceTimersByTime(200);
    FakeWebSocket.last.accept();
    expect(FakeWebSocket.last.sent).toEqual([]);
    FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T2" });
    expect(FakeWebSocket.last.sent).toEqual([
      { chunk: 3 },
      { chunk: 4 },
      { chunk: 5 },
      { type: "pause" },
    ]);
  });

  it("tells which audio is too old to be sent", () => {
    const { socket } = resumable();
    const dropped: object[] = [];
    socket.on("dropped", (message) => dropped.push(message));
    FakeWebSocket.last.drop(1006);
    for (let n = 0; n < 5; n++) socket.send({ chunk: n }, { perishableMs: 1000 });
    expect(dropped).toEqual([{ chunk: 0 }, { chunk: 1 }]);
  });

  it("keeps as many seconds of short chunks", () => {
    const { socket } = resumable();
    FakeWebSocket.last.drop(1006);
    for (let n = 0; n < 40; n++) socket.send({ chunk: n }, { perishableMs: 200 });
    vi.advanceTimersByTime(200);
    FakeWebSocket.last.accept();
    FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T2" });
    const sent = FakeWebSocket.last.sent;
    expect([sent.length, sent[0], sent.at(-1)]).toEqual([15, { chunk: 25 }, { chunk: 39 }]);
  });

  it("retries with increasing waits until the resume window ends", () => {
    const { log } = resumable();
    FakeWebSocket.last.drop(1006);
    for (let ms = 0; ms < RESUME_WINDOW_MS; ms += 50) {
      vi.advanceTimersByTime(50);
      if (FakeWebSocket.last.readyState === 0) FakeWebSocket.last.drop(1006);
    }
    expect(log).toEqual(["open", "reconnecting", "closed", "closed 1006"]);
    expect(FakeWebSocket.all.length).toBeGreaterThan(4);
    expect(FakeWebSocket.all.length).toBeLessThan(12);
  });

  it("stops at once if the token is unknown or another tab took over", () => {
    const { log } = resumable();
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200);
    FakeWebSocket.last.drop(4410);
    expect(log.at(-1)).toBe("closed 4410");
  });

  it.each([
    [1011, "keepalive ping timeout"],
    [1013, "slow_consumer"],
  ])("is resumed after it was too slow: %i %s", (code, reason) => {
    const { log } = resumable();
    FakeWebSocket.last.drop(code, reason);
    expect(log.at(-1)).toBe("reconnecting");
    vi.advanceTimersByTime(200);
    expect(FakeWebSocket.last.url.searchParams.get("resume_token")).toBe("T1");
  });

  it("ends if the engine failed", () => {
    const { log } = resumable();
    FakeWebSocket.last.drop(1011, "engine_error");
    expect(log.at(-1)).toBe("closed 1011");
  });

  it("retries if the server is busy", () => {
    const { log } = resumable();
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200);
    FakeWebSocket.last.drop(1013);
    expect(log.at(-1)).toBe("reconnecting");
    const fresh = resumable();
    FakeWebSocket.last.drop(1013);
    expect(fresh.log.at(-1)).toBe("closed 1013");
  });

  it("ignores the resumed message of a pause", () => {
    const { log, received } = resumable();
    FakeWebSocket.last.say({ type: "resumed", seq: 5 });
    expect(received).toEqual(["queue_done", "resumed"]);
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200);
    expect(FakeWebSocket.last.url.searchParams.get("seq")).toBe("5");
    expect(log.at(-1)).toBe("reconnecting");
  });

  it("abandons an attempt without an answer", () => {
    resumable();
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200);
    const stuck = FakeWebSocket.last;
    vi.advanceTimersByTime(4000 + 750);
    expect(FakeWebSocket.last).not.toBe(stuck);
    expect(FakeWebSocket.last.url.searchParams.get("attempt")).toBe("2");
  });

  it("counts its attempts over the whole session", () => {
    resumable();
    for (const token of ["T2", "T3"]) {
      FakeWebSocket.last.drop(1006);
      vi.advanceTimersByTime(200);
      FakeWebSocket.last.accept();
      FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: token });
    }
    expect(FakeWebSocket.last.url.searchParams.get("attempt")).toBe("2");
  });

  it("is not ended by an abandoned attempt that arrives late", () => {
    const { log } = resumable();
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200 + 4000 + 750);
    FakeWebSocket.last.accept();
    FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T2" });
    FakeWebSocket.last.drop(4409);
    expect(log.at(-1)).toBe("reconnecting");
    vi.advanceTimersByTime(200);
    FakeWebSocket.last.accept();
    FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T3" });
    FakeWebSocket.last.drop(4409); // another tab
    expect(log.at(-1)).toBe("closed 4409");
  });

  it("survives as many late attempts as it has abandoned", () => {
    const { log } = resumable();
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200 + 4000 + 750 + 4000 + 1500);
    expect(FakeWebSocket.last.url.searchParams.get("attempt")).toBe("3");
    for (const token of ["T2", "T3"]) {
      FakeWebSocket.last.accept();
      FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: token });
      FakeWebSocket.last.drop(4409);
      expect(log.at(-1)).toBe("reconnecting");
      vi.advanceTimersByTime(200);
    }
    FakeWebSocket.last.accept();
    FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T4" });
    expect(log.at(-1)).toBe("open");
  });

  it("retries at once on request", () => {
    const { socket } = resumable();
    FakeWebSocket.last.drop(1006);
    vi.advanceTimersByTime(200);
    FakeWebSocket.last.drop(1006);
    const before = FakeWebSocket.all.length;
    socket.retryNow();
    expect(FakeWebSocket.all.length).toBe(before + 1);
  });

  it("is not lost after the session has ended", () => {
    const { socket, log } = resumable();
    socket.finish();
    FakeWebSocket.last.drop(1006);
    expect(log.at(-1)).toBe("closed 1006");
  });
});

it("replaces a dead connection that did not close", () => {
  const { socket, log } = resumable();
  const dead = FakeWebSocket.last;
  socket.reconnect();
  vi.advanceTimersByTime(200);
  expect(FakeWebSocket.last).not.toBe(dead);
  dead.say({ type: "result", seq: 9 });
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T2" });
  expect(log).toEqual(["open", "reconnecting", "open"]);
});

it("closes at once while reconnecting", () => {
  const { socket, log } = resumable();
  FakeWebSocket.last.drop(1006);
  socket.close();
  vi.advanceTimersByTime(RESUME_WINDOW_MS);
  expect(log.at(-1)).toBe("closed 1000");
  expect(FakeWebSocket.all).toHaveLength(1);
});

it("closes at once although the network does not answer", () => {
  const { socket, log, received } = resumable();
  const dead = FakeWebSocket.last;
  const close = vi.spyOn(dead, "close").mockImplementation(() => undefined);
  socket.close();
  expect(close).toHaveBeenCalledWith(1000);
  dead.say({ type: "result", seq: 5 });
  dead.drop(1006);
  expect(received).toEqual(["queue_done"]);
  expect(log).toEqual(["open", "closed", "closed 1000"]);
});

it("stops a session that the server would keep, once", () => {
  const { socket } = resumable();
  socket.close();
  socket.close();
  expect(FakeWebSocket.last.sent).toEqual([{ type: "stop" }]);
  const asked = resumable();
  asked.socket.send({ type: "stop" });
  asked.socket.close();
  expect(FakeWebSocket.last.sent).toEqual([{ type: "stop" }]);
});

it("stops on a new connection what was stopped on a broken one", () => {
  const { socket } = resumable();
  socket.send({ type: "stop" });
  FakeWebSocket.last.drop(1006);
  vi.advanceTimersByTime(200);
  FakeWebSocket.last.accept();
  FakeWebSocket.last.say({ type: "resumed", seq: 4, resume_token: "T2" });
  socket.close();
  expect(FakeWebSocket.last.sent).toEqual([{ type: "stop" }]);
});

it("stops nothing that has ended or that the server does not keep", () => {
  const ended = resumable();
  ended.socket.finish();
  ended.socket.close();
  expect(FakeWebSocket.last.sent).toEqual([]);
  const fresh = open();
  FakeWebSocket.last.accept();
  fresh.socket.close();
  expect(FakeWebSocket.last.sent).toEqual([]);
});

it("closes a first connection that has not opened", () => {
  const { socket, log } = open();
  socket.close();
  expect(FakeWebSocket.last.readyState).toBe(3);
  expect(log).toEqual(["closed", "closed 1000"]);
});

it("closes an attempt to reconnect, which must not hold the session", () => {
  const { socket, log } = resumable();
  FakeWebSocket.last.drop(1006);
  vi.advanceTimersByTime(200);
  expect(FakeWebSocket.all).toHaveLength(2);
  socket.close();
  expect(FakeWebSocket.last.readyState).toBe(3);
  expect(log).toEqual(["open", "reconnecting", "closed", "closed 1000"]);
});
