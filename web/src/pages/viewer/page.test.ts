// @vitest-environment happy-dom

import { afterEach, expect, test, vi } from "vitest";
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

afterEach(() => document.querySelector("an-recording")?.remove());

async function open(change: Partial<RecordingMeta> = {}, lengthMs = 1000) {
  const view = new RecordingView();
  const timeline = { lengthMs, lines: [], segments: [], frames: [], events: [], costs: [] };
  const own = { files: new Map<string, Blob>(), why: "merging" } as const;
  const meta = { ...META, merged_replay: null, config: { top_k: 20 }, ...change };
  view.loaded = { is: "open", meta, timeline, comment: "", title: "", own };
  document.body.append(view);
  await inside(view, "pre");
  return view;
}

/** The element, when it is rendered. */
async function inside(view: Element, selector: string): Promise<Element> {
  const found = () => view.querySelector(selector) as Element;
  await vi.waitFor(() => expect(found()).not.toBeNull(), 5000);
  return found();
}

/** Whether the viewer uses the key, so that it does not scroll. */
function uses(key: string, target: Element = document.body): boolean {
  return !target.dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }),
  );
}

test("keys seek, and scroll the page without another turn", async () => {
  await open();
  expect(["ArrowLeft", "ArrowRight", "End", "Home"].every((key) => uses(key))).toBe(true);
  expect(["ArrowUp", "ArrowDown", "a"].some((key) => uses(key))).toBe(false);
});

test("keys scroll a recording without a player", async () => {
  await open({ app_type: "chat" });
  expect(["ArrowLeft", "ArrowDown", "Home", "End", " "].some((key) => uses(key))).toBe(false);
});

test("keys stay with what scrolls or plays, and in dialogs", async () => {
  const view = await open();
  expect(uses("End", await inside(view, "an-timeline .scroller"))).toBe(true);
  expect(uses("End", await inside(view, "pre"))).toBe(false);
  const video = document.createElement("video");
  view.append(video);
  expect(uses("ArrowRight", video)).toBe(false);
  const dialog = view.querySelector("dialog") as HTMLDialogElement;
  dialog.open = true;
  expect([uses("End", dialog), uses("End")]).toEqual([false, false]);
});

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
