// @vitest-environment happy-dom

import * as v from "valibot";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  ApiError,
  fetchJson,
  INVALID_ANSWER,
  keyRequest,
  saveKey,
  socketProtocols,
} from "./http.ts";

const OK = v.object({ ok: v.boolean() });
const asked = vi.fn();

function answer(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status });
}

/** Answers 401 to requests without the key. */
function guarded(_path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  asked(headers.get("authorization"));
  const good = headers.get("authorization") === "Bearer good-key";
  return Promise.resolve(
    good ? answer(200, { ok: true }) : answer(401, { code: "unauthorized", message: "a key" }),
  );
}

beforeEach(() => {
  localStorage.clear();
  sessionStorage.clear();
  asked.mockClear();
  dispatchEvent(new Event("pointerdown")); // a new action of the user
});
afterEach(() => vi.unstubAllGlobals());

test("a key that the user enters is sent and stored", async () => {
  vi.stubGlobal("fetch", guarded);
  const leave = keyRequest.subscribe((request) => {
    if (request === null) return;
    saveKey(request.role, "good-key");
    request.answer(true);
  });
  expect(await fetchJson("/api/apps", OK)).toEqual({ ok: true });
  expect(await fetchJson("/api/apps", OK)).toEqual({ ok: true });
  leave();
  expect(asked.mock.calls).toEqual([[null], ["Bearer good-key"], ["Bearer good-key"]]);
});

test("concurrent requests ask for a key once", async () => {
  vi.stubGlobal("fetch", guarded);
  const questions: string[] = [];
  const leave = keyRequest.subscribe((request) => {
    if (request === null) return;
    questions.push(request.role);
    saveKey(request.role, "good-key");
    setTimeout(() => request.answer(true));
  });
  await Promise.all([fetchJson("/a", OK), fetchJson("/b", OK), fetchJson("/c", OK)]);
  leave();
  expect(questions).toEqual(["client"]);
});

test("a request for the admin token waits for the dialog of the key", async () => {
  vi.stubGlobal("fetch", guarded);
  const roles: string[] = [];
  let answered: Promise<void> = Promise.resolve();
  const leave = keyRequest.subscribe((request) => {
    if (request === null) return;
    roles.push(request.role);
    answered = answered
      .then(() => new Promise((resolve) => setTimeout(resolve)))
      .then(() => {
        expect(keyRequest.value).toBe(request);
        saveKey(request.role, "good-key");
        request.answer(true);
      });
  });
  const both = [fetchJson("/a", OK), fetchJson("/b", OK, { role: "admin" })];
  expect(await Promise.all(both)).toEqual([{ ok: true }, { ok: true }]);
  expect(await answered).toBeUndefined();
  leave();
  expect(roles).toEqual(["client", "admin"]);
});

test("an admin token that is entered first answers for both roles", async () => {
  vi.stubGlobal("fetch", guarded);
  const roles: string[] = [];
  const leave = keyRequest.subscribe((request) => {
    if (request === null) return;
    roles.push(request.role);
    setTimeout(() => {
      saveKey(request.role, "good-key");
      request.answer(true);
    });
  });
  const both = [fetchJson("/a", OK, { role: "admin" }), fetchJson("/b", OK)];
  expect(await Promise.all(both)).toEqual([{ ok: true }, { ok: true }]);
  leave();
  expect(roles).toEqual(["admin"]);
});

/** `/late` is refused when the returned function is called. */
function delayLate(): () => void {
  let answerLate: () => void = () => undefined;
  const late = new Promise<void>((resolve) => {
    answerLate = resolve;
  });
  vi.stubGlobal("fetch", async (path: string, init: RequestInit) => {
    const response = await guarded(path, init);
    if (path === "/late" && response.status === 401) await late;
    return response;
  });
  return answerLate;
}

test("neither a late answer nor the next request asks again before the user presses something", async () => {
  const answerLate = delayLate();
  const cancel = vi.fn();
  const leave = keyRequest.subscribe((request) => {
    if (request === null) return;
    cancel();
    request.answer(false);
  });
  const refused = { status: 401 };
  const waiting = fetchJson("/late", OK);
  await expect(fetchJson("/first", OK)).rejects.toMatchObject(refused);
  answerLate();
  await expect(waiting).rejects.toMatchObject(refused);
  await expect(fetchJson("/next", OK)).rejects.toMatchObject(refused);
  expect(cancel).toHaveBeenCalledOnce();
  dispatchEvent(new Event("pointerdown"));
  await expect(fetchJson("/first", OK)).rejects.toMatchObject(refused);
  expect(cancel).toHaveBeenCalledTimes(2);
  leave();
});

test("a late answer to a request without the key does not refuse the key", async () => {
  const answerLate = delayLate();
  const refusals: boolean[] = [];
  const leave = keyRequest.subscribe((request) => {
    if (request === null) return;
    refusals.push(request.refused);
    saveKey(request.role, "good-key");
    request.answer(true);
  });
  const waiting = fetchJson("/late", OK);
  await fetchJson("/first", OK);
  answerLate();
  expect(await waiting).toEqual({ ok: true });
  leave();
  expect(refusals).toEqual([false]);
});

test("a wrong key is asked for again", async () => {
  vi.stubGlobal("fetch", guarded);
  const refusals: boolean[] = [];
  const leave = keyRequest.subscribe((request) => {
    if (request === null) return;
    saveKey(request.role, refusals.length === 0 ? "bad-key" : "good-key");
    refusals.push(request.refused);
    request.answer(true);
  });
  expect(await fetchJson("/api/apps", OK)).toEqual({ ok: true });
  leave();
  expect(refusals).toEqual([false, true]);
});

test("a request without a key is rejected", async () => {
  vi.stubGlobal("fetch", guarded);
  const leave = keyRequest.subscribe((request) => request?.answer(false));
  await expect(fetchJson("/api/apps", OK)).rejects.toMatchObject({
    status: 401,
    code: "unauthorized",
  });
  leave();
});

test("keeps the server's message and accepts responses without JSON", async () => {
  vi.stubGlobal("fetch", async () =>
    answer(413, { code: "message_too_large", message: "too long" }),
  );
  await expect(fetchJson("/x", OK)).rejects.toMatchObject({
    code: "message_too_large",
    message: "too long",
  });
  vi.stubGlobal(
    "fetch",
    async () => new Response("<html>", { status: 502, statusText: "Bad Gateway" }),
  );
  await expect(fetchJson("/x", OK)).rejects.toMatchObject({ status: 502, message: "Bad Gateway" });
});

test("a network error is an ApiError with status 0, an abort is not", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("failed")));
  await expect(fetchJson("/x", OK)).rejects.toBeInstanceOf(ApiError);
  await expect(fetchJson("/x", OK)).rejects.toMatchObject({ status: 0 });
  const signal = AbortSignal.abort();
  vi.stubGlobal("fetch", () => Promise.reject(signal.reason));
  await expect(fetchJson("/x", OK, { signal })).rejects.toBe(signal.reason);
});

test.each([
  ["a field is missing", "{}", "/api/x: ok is missing or wrong"],
  ["a field has another type", '{"ok": 1}', "/api/x: ok is missing or wrong"],
  ["it is not an object", "null", "/api/x: the answer is not valid"],
  ["it is not JSON", "<html>", "/api/x: the answer is not valid"],
])("an answer is refused if %s", async (_, body, message) => {
  vi.stubGlobal("fetch", async () => new Response(body));
  await expect(fetchJson("/api/x?limit=1", OK)).rejects.toMatchObject({
    status: 200,
    code: INVALID_ANSWER,
    message,
  });
});

test("the WebSocket key is base64url, and the admin token is accepted", () => {
  expect(socketProtocols()).toEqual([]);
  saveKey("admin", "admin-token-?>");
  expect(socketProtocols()).toEqual(["antiphon.v1", "antiphon.key.YWRtaW4tdG9rZW4tPz4"]);
  saveKey("client", "client-key");
  expect(socketProtocols()[1]).toBe("antiphon.key.Y2xpZW50LWtleQ");
});

test("a stored key that no header can carry counts as none", async () => {
  vi.stubGlobal("fetch", guarded);
  for (const key of ["good-key\u200b", "ｇｏｏｄ－ｋｅｙ", "good key", ""]) {
    saveKey("client", key);
    expect(socketProtocols()).toEqual([]);
  }
  const refusals: boolean[] = [];
  const leave = keyRequest.subscribe((request) => {
    if (request === null) return;
    refusals.push(request.refused);
    saveKey(request.role, "good-key");
    request.answer(true);
  });
  expect(await fetchJson("/api/apps", OK)).toEqual({ ok: true });
  leave();
  expect(refusals).toEqual([false]);
});
