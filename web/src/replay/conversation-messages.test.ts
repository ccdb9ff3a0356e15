// @vitest-environment happy-dom

import { afterEach, expect, test, vi } from "vitest";
import { unitTiming } from "../api/answers.ts";
import { wavFile } from "../audio/stereo-recorder.ts";
import { type Packable, packConversation, packed } from "./conversation-messages.ts";

async function hex(value: Packable): Promise<string> {
  const bytes = new Uint8Array(await packed(value).arrayBuffer());
  return [...bytes.slice(0, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

test("values have the bytes of the specification", async () => {
  expect(await hex({ a: [1, "é"] })).toBe("81 a1 61 92 01 a2 c3 a9");
  expect(await hex(Uint8Array.of(1, 2))).toBe("c4 02 01 02");
  expect(await hex(300)).toBe("cd 01 2c");
  expect(await hex(70_000)).toBe("ce 00 01 11 70");
  expect(await hex("x".repeat(32))).toMatch(/^d9 20 78/);
  expect(await hex("x".repeat(256))).toMatch(/^da 01 00 78/);
  expect(await hex(new Uint8Array(65_536))).toMatch(/^c6 00 01 00 00 00/);
  expect(await hex(Array.from({ length: 16 }, () => 7))).toMatch(/^dc 00 10 07/);
});

const RATE = 1000;
/** Of the user's sound, in seconds. */
const [FROM, UNTIL] = [1, 6];
const UNIT = {
  mode: "LISTEN",
  user_text: "Hi there",
  publish_ts_ms: 7000,
  epoch: 0,
  timing: Object.fromEntries(Object.keys(unitTiming.entries).map((name) => [name, 0])),
};
const COMMON = { session_id: "adx_1", recording_id: "r_1", app_type: "audio_duplex", config: {} };
const META = {
  ...COMMON,
  ticket: 0,
  state: "complete",
  created_at: "2026-01-01T00:00:00Z",
  merged_replay: "replay.wav",
};
const RECORDING = {
  ...COMMON,
  mode: "duplex",
  worker_id: "",
  start_ts: META.created_at,
  chunks: [],
  events: [],
  diagnostics: [],
  orphan_results: [UNIT],
};

/** The seconds of the WAV file within a message. */
async function clipSeconds(file: Blob): Promise<number> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const at = new TextDecoder("latin1").decode(bytes).indexOf("RIFF");
  return new DataView(bytes.buffer).getUint32(at + 40, true) / 2 / RATE;
}

afterEach(() => vi.unstubAllGlobals());

test.each([
  ["all of the user's sound", true, UNTIL - FROM],
  ["the estimated part if the sound is unknown", false, 1.56],
])("an exported line has %s", async (_, hasPeaks, seconds) => {
  const peaks = Array.from({ length: 200 }, (_, i) => (i >= FROM * 25 && i < UNTIL * 25 ? 200 : 0));
  const wav = wavFile([new Blob([new Int16Array(2 * 8 * RATE)])], { channels: 2, rate: RATE });
  const sound = await wav.arrayBuffer();
  vi.stubGlobal("fetch", async (path: string) => {
    if (path.endsWith("/replay.wav")) return new Response(sound);
    if (path.endsWith("/recording")) return Response.json(RECORDING);
    if (!path.endsWith("/peaks")) return Response.json(META);
    if (!hasPeaks) return new Response("{}", { status: 404 });
    return Response.json({ per_second: 25, user: peaks, model: peaks.map(() => 0) });
  });
  expect(await clipSeconds(await packConversation("r_1"))).toBeCloseTo(seconds, 2);
});
