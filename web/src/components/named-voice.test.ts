// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Capabilities, NamedVoice } from "../api/answers.ts";
import { language } from "../i18n/language.ts";
import { capabilities } from "../shell/capabilities.ts";
import { type NamedVoiceSelect, namedVoice, namedVoiceSettings } from "./named-voice.ts";

const HEART: NamedVoice = { id: "heart", name: "Heart", language: "en-US", gender: "female" };
const GEORGE: NamedVoice = { id: "george", name: "George", language: "en-GB", gender: "male" };

afterEach(() => vi.unstubAllGlobals());

function engineWith(voices: NamedVoice[]): Capabilities {
  const able = {
    hears: ["en"],
    speaks: ["en"],
    clones_voices: false,
    matches_voices: false,
    voices,
  };
  const rest = {
    sees: false,
    sees_in_words: false,
    kinds: [],
    calls_tools: false,
    greets: true,
    interim_transcripts: true,
    chunk_ms: 200,
    transcribes: false,
    reads_aloud: false,
    simulated: false,
  };
  return { model: "Small", engines: [], ...able, ...rest };
}

beforeEach(() => {
  namedVoiceSettings.update({ id: null });
  capabilities.set(engineWith([HEART, GEORGE]));
  language.set("en");
});

it("is kept in the browser", async () => {
  expect(await namedVoice()).toBeUndefined();
  namedVoiceSettings.update({ id: "george" });
  expect(localStorage.getItem("antiphon.settings.named-voice")).toContain("george");
  expect(await namedVoice()).toBe("george");
});

it("is looked up again, and not sent to an engine that does not have it", async () => {
  const answers = [engineWith([HEART]), engineWith([HEART, GEORGE])];
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify(answers.shift())));
  capabilities.set(null);
  namedVoiceSettings.update({ id: "george" });
  expect(await namedVoice()).toBeUndefined();
  expect(await namedVoice()).toBe("george");
});

async function shown(): Promise<NamedVoiceSelect> {
  const element = document.createElement("an-named-voice") as NamedVoiceSelect;
  document.body.replaceChildren(element);
  await element.updateComplete;
  return element;
}

it("lists the voices with accent and gender in the language of the page", async () => {
  const element = await shown();
  const texts = () => [...element.querySelectorAll("option")].map((option) => option.textContent);
  expect(texts()).toEqual(["Default", "Heart · American, female", "George · British, male"]);
  language.set("zh");
  await element.updateComplete;
  expect(texts()[1]).toBe("Heart · 美国口音，女声");
  capabilities.set(engineWith([]));
  await element.updateComplete;
  expect(element.querySelector("select")).toBeNull();
});

it("keeps the selection, and plays only a voice that is selected", async () => {
  const element = await shown();
  const play = () => element.querySelector("button");
  expect(play()?.getAttribute("aria-disabled")).toBe("true");
  const select = element.querySelector("select") as HTMLSelectElement;
  select.value = "heart";
  select.dispatchEvent(new Event("change"));
  await element.updateComplete;
  expect(await namedVoice()).toBe("heart");
  expect(play()?.getAttribute("aria-disabled")).toBeNull();
  expect(play()?.getAttribute("aria-label")).toBe("Play Heart");
});
