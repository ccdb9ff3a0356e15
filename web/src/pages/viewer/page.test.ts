// @vitest-environment happy-dom

import { expect, test, vi } from "vitest";
import type { RecordingMeta } from "../../api/answers.ts";
import { wavFile } from "../../audio/stereo-recorder.ts";
import type { TimelineView } from "./timeline-view.ts";

vi.stubGlobal("fetch", () => new Promise(() => undefined)); // the page around it waits
const { RecordingView } = await import("./page.ts");

const META: RecordingMeta = {
  session_id: "adx_1",
  recording_id: "r_1",
  app_type: "audio_duplex",
  ticket: 0,
  worker_id: "",
  first_words: "",
  missing: [],
  degraded: [],
  state: "complete",
  created_at: "2026-01-01T00:00:00Z",
  config: {},
  replay: "ready",
  merged_replay: "own-audio.wav",
};

test("a new name does not stop the waveform", async () => {
  const sound = wavFile([new Blob([new Int16Array(2 * 1000)])], { channels: 2, rate: 1000 });
  const view = new RecordingView();
  view.name = "r_1";
  view.loaded = {
    is: "open",
    meta: META,
    timeline: { lengthMs: 1000, lines: [], segments: [], frames: [], events: [], costs: [] },
    comment: "",
    title: "",
    own: { files: new Map([["own-audio.wav", sound]]), why: "merging" },
  };
  document.body.append(view);
  await view.updateComplete;
  view.loaded = { ...view.loaded, title: "New name" };
  const seconds = () => (view.querySelector("an-timeline") as TimelineView).shape?.seconds;
  await vi.waitFor(() => expect(seconds()).toBeCloseTo(1));
  view.remove();
});
