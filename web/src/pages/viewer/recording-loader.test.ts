// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { OwnConversation } from "../../storage/conversations.ts";
import { Assets, RecordingLoader } from "./recording-loader.ts";

const stored = vi.hoisted(() => ({ title: "" }));

vi.mock("../../storage/conversations.ts", async (original) => ({
  ...(await original<object>()),
  ownConversation: async (): Promise<OwnConversation> => ({
    id: "adx_1",
    kind: "audio_duplex",
    startedAt: 0,
    durationMs: 1000,
    recordingId: "r_1",
    lines: [],
    title: stored.title,
    kept: [],
  }),
}));

const COMMON = { session_id: "adx_1", recording_id: "r_1", app_type: "audio_duplex", config: {} };
const META = { ...COMMON, ticket: 0, state: "complete", created_at: "2026-01-01T00:00:00Z" };
const RECORDING = {
  ...COMMON,
  mode: "duplex",
  worker_id: "",
  start_ts: META.created_at,
  chunks: [],
  events: [],
  diagnostics: [],
};

/** What the server answers. */
let replay: "merging" | "ready" | "gone" = "merging";

beforeEach(() => {
  vi.useFakeTimers();
  stored.title = "First name";
  replay = "merging";
  vi.stubGlobal("fetch", async (path: string) => {
    if (replay === "gone") return new Response("{}", { status: 404 });
    if (path.endsWith("/recording")) return Response.json(RECORDING);
    return Response.json(path.endsWith("/comment") ? { comment: "" } : { ...META, replay });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("the URLs of files are freed", async () => {
  const freed = vi.spyOn(URL, "revokeObjectURL");
  const assets = new Assets("r_1", new Map([["own-audio.wav", new Blob(["x"])]]));
  const url = await assets.url("own-audio.wav");
  assets.close();
  await vi.advanceTimersByTimeAsync(0);
  expect(freed.mock.calls.map(([one]) => one)).toEqual([url]);
  expect(await assets.url("own-audio.wav")).not.toBe(url);
});

test.each(["ready", "gone"] as const)(
  "a new name stays when the server's recording is %s",
  async (then) => {
    const loader = new RecordingLoader("r_1");
    await loader.load();
    const own = { why: "merging" };
    expect(loader.state.value).toMatchObject({ is: "open", title: "First name", own });
    stored.title = "New name";
    replay = then;
    await vi.advanceTimersByTimeAsync(1000);
    const shown = then === "ready" ? null : { why: "not_on_server" };
    expect(loader.state.value).toMatchObject({ is: "open", title: "New name", own: shown });
    loader.close();
  },
);
