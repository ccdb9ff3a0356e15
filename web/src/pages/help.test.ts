// @vitest-environment happy-dom

import { afterEach, expect, it } from "vitest";
import { callStrings } from "../call/strings.ts";
import { language, type Words } from "../i18n/language.ts";
import { adminStrings, stateStrings } from "./admin/strings.ts";
import { chatStrings } from "./chat/strings.ts";
import { halfDuplexStrings } from "./half-duplex/strings.ts";
import { HELP, type TopicName, topicOf } from "./help.ts";
import { noticeStrings } from "./viewer/notices.ts";
import { viewerStrings } from "./viewer/strings.ts";

const STRINGS: Record<TopicName, readonly (() => Words)[]> = {
  voice: [callStrings],
  video: [callStrings],
  chat: [chatStrings],
  halfDuplex: [halfDuplexStrings],
  viewer: [viewerStrings, noticeStrings],
  admin: [adminStrings, stateStrings],
};

afterEach(() => language.set("en"));

it.each(["en", "zh"] as const)("explains states by the names that the page shows: %s", (code) => {
  language.set(code);
  for (const [name, { states }] of Object.entries(HELP[code].topics)) {
    const shown = STRINGS[name as TopicName].flatMap((strings) => texts(strings()));
    for (const [state] of states) expect(shown).toContain(state);
  }
});

it("has a topic for each page", () => {
  const paths = ["/", "/omni", "/mobile-omni", "/turnbased", "/half_duplex", "/s/abc", "/admin"];
  const topics = ["voice", "video", "video", "chat", "halfDuplex", "viewer", "admin"];
  expect(paths.map(topicOf)).toEqual(topics);
});

function texts(words: Words): unknown[] {
  return Object.values(words).flatMap((one) => (typeof one === "object" ? texts(one) : [one]));
}
