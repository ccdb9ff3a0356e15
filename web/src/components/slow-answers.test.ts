// @vitest-environment happy-dom

import "./part-list.ts";
import "./preset-selector.ts";
import "./recording-actions.ts";
import "./voice-picker.ts";
import type { LitElement } from "lit";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { saveKey } from "../api/http.ts";
import { STEREO_FORMAT, wavFile } from "../audio/stereo-recorder.ts";
import { type Part, textPart } from "../media/parts.ts";
import type { Composer } from "../pages/chat/composer.ts";
import "../pages/chat/composer.ts";
import { type OwnPreset, ownPresets } from "../storage/own-presets.ts";
import { isBuilt } from "../ui/page-build.ts";

/** A promise that the test resolves. */
function pending<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((fulfil) => {
    resolve = fulfil;
  });
  return { promise, resolve };
}

async function shown<T extends object>(name: string, fields: T): Promise<LitElement & T> {
  const element = Object.assign(document.createElement(name) as LitElement, fields);
  document.body.append(element);
  await element.updateComplete;
  return element as LitElement & T;
}

async function composerWith(text: string): Promise<Composer> {
  return (await shown("an-composer", { draft: [textPart(text)] })) as LitElement as Composer;
}

beforeEach(() => {
  isBuilt.set(true);
  localStorage.clear();
});
afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

test("a file that is read late keeps the texts that were entered in between", async () => {
  const list = await shown("an-part-list", { parts: [textPart("one")], kinds: ["video"] });
  const bytes = pending<ArrayBuffer>();
  const file = new File(["film"], "film.mp4", { type: "video/mp4" });
  file.arrayBuffer = () => bytes.promise;
  const input = list.querySelector('input[type="file"]') as HTMLInputElement;
  Object.defineProperty(input, "files", { value: [file] });
  input.dispatchEvent(new Event("change"));
  const area = list.querySelector("textarea") as HTMLTextAreaElement;
  area.value = "one and a half";
  area.dispatchEvent(new Event("input"));
  bytes.resolve(new ArrayBuffer(4));
  await vi.waitFor(() => expect(list.parts).toHaveLength(2));
  expect((list.parts as readonly Part[])[0]).toMatchObject({ text: "one and a half" });
});

/** Safari ends the composition before the key that confirms it. */
test("the keys of an input method neither send a message nor end its editing", async () => {
  const composer = await composerWith("你好");
  composer.editing = true;
  const done = vi.fn();
  for (const name of ["send", "cancel"]) composer.addEventListener(name, done);
  const area = composer.querySelector("textarea") as HTMLTextAreaElement;
  for (const by of [{ isComposing: true }, { keyCode: 229 }]) {
    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ...by }));
    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", ...by }));
  }
  expect(done).not.toHaveBeenCalled();
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  expect(done).toHaveBeenCalledOnce();
});

test("a message is sent with the file that is still read", async () => {
  const composer = await composerWith("What is this?");
  const sent: Part[][] = [];
  composer.addEventListener("send", (event) => sent.push((event as CustomEvent<Part[]>).detail));
  const bytes = pending<ArrayBuffer>();
  const file = new File(["film"], "film.mp4", { type: "video/mp4" });
  file.arrayBuffer = () => bytes.promise;
  const reading = composer.add([file]);
  const area = composer.querySelector("textarea") as HTMLTextAreaElement;
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  await composer.updateComplete;
  expect(composer.querySelector('[role="status"]')?.textContent).toBe(
    "Sent when the file is ready",
  );
  expect(sent).toEqual([]);
  bytes.resolve(new ArrayBuffer(4));
  await reading;
  await composer.updateComplete;
  expect(sent).toMatchObject([[{ name: "film.mp4" }, { text: "What is this?" }]]);
});

test("a message whose file cannot be read is not sent without it", async () => {
  const composer = await composerWith("What is this?");
  const send = vi.fn();
  composer.addEventListener("send", send);
  const reading = composer.add([new File(["?"], "notes.txt", { type: "text/plain" })]);
  const area = composer.querySelector("textarea") as HTMLTextAreaElement;
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  await reading;
  await composer.updateComplete;
  expect(send).not.toHaveBeenCalled();
  expect(area.value).toBe("What is this?");
});

test("a preset is saved once, however often the button is pressed", async () => {
  const content = pending<Omit<OwnPreset, "id" | "name">>();
  const editor = await shown("an-own-preset", { content: () => content.promise });
  editor.querySelector("button")?.click();
  await editor.updateComplete;
  const name = editor.querySelector("input") as HTMLInputElement;
  name.value = "Pirate";
  const save = editor.querySelector<HTMLButtonElement>(".primary");
  save?.click();
  await editor.updateComplete;
  save?.click();
  content.resolve({ texts: [], greeting: "", voice: null, speech: null });
  await vi.waitFor(() => expect(ownPresets.value).toHaveLength(1));
  await editor.updateComplete;
  expect(ownPresets.value).toHaveLength(1);
});

test("a microphone that opens after its dialog was closed is closed", async () => {
  const stop = vi.fn();
  const opened = pending<unknown>();
  vi.stubGlobal("navigator", { mediaDevices: { getUserMedia: () => opened.promise } });
  vi.stubGlobal(
    "MediaRecorder",
    class {
      state = "inactive";
      start(): void {}
    },
  );
  const upload = await shown("an-voice-upload", {});
  const record = upload.querySelector<HTMLButtonElement>("button");
  record?.click();
  await upload.updateComplete;
  expect(record?.getAttribute("aria-disabled")).toBe("true");
  upload.remove();
  opened.resolve({ getTracks: () => [{ stop }] });
  await vi.waitFor(() => expect(stop).toHaveBeenCalledOnce());
});

const MERGED = {
  session_id: "s",
  recording_id: "r",
  ticket: 1,
  app_type: "audio_duplex",
  state: "complete",
  created_at: "2026-01-01T00:00:00Z",
  config: {},
  replay: "ready",
  merged_replay: "replay.wav",
};

test("a replay shows its length before its file is loaded", async () => {
  const audio = wavFile([new Blob([new ArrayBuffer(192_000)])], STEREO_FORMAT);
  const replay = await shown("an-instant-replay", { audio, recordingId: null });
  await replay.querySelector<LitElement>("an-player-controls")?.updateComplete;
  expect(replay.querySelector("audio")?.preload).toBe("none");
  expect(replay.querySelector("output")?.textContent).toBe("0:00 / 0:02");
});

test("a replay with a key fetches the recording of the server once", async () => {
  saveKey("client", "a-key-that-is-long-enough");
  const fetched: string[] = [];
  vi.stubGlobal("fetch", async (path: string) => {
    fetched.push(path);
    return new Response(path.endsWith(".wav") ? "sound" : JSON.stringify(MERGED));
  });
  const replay = await shown("an-instant-replay", { audio: new Blob(), recordingId: "r" });
  const audio = replay.querySelector("audio") as HTMLAudioElement;
  Object.defineProperty(audio, "paused", { value: false });
  const own = audio.src;
  audio.onplay?.(new Event("play"));
  await replay.updateComplete;
  expect(fetched).toEqual([]); // not before it plays: a source that loads must not be replaced
  for (const _ of [1, 2, 3]) audio.dispatchEvent(new Event("playing"));
  await vi.waitFor(() => expect(audio.src).not.toBe(own));
  audio.dispatchEvent(new Event("playing"));
  await replay.updateComplete;
  expect(fetched).toEqual(["/api/sessions/r", "/api/sessions/r/assets/replay.wav"]);
});
