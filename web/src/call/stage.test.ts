// @vitest-environment happy-dom

import { render } from "lit";
import { afterEach, expect, it, vi } from "vitest";
import { NEW_DUPLEX } from "../session/duplex-session.ts";
import { isBuilt } from "../ui/page-build.ts";
import type { CallView } from "./call-actions.ts";
import { CallController } from "./call-controller.ts";
import { callSettings } from "./call-settings.ts";
import { callStage } from "./stage.ts";

vi.hoisted(() => vi.stubGlobal("fetch", () => new Promise(() => undefined)));
afterEach(() => document.body.replaceChildren());

it("says that the microphone has stopped, and opens one again", () => {
  isBuilt.set(true);
  const call = new CallController();
  const settings = callSettings("audio");
  const actions = { useMicrophone: vi.fn(), show: vi.fn() };
  const view = {
    call,
    settings,
    actions,
    values: settings.value,
    state: {
      ...call.state.value,
      sessionState: { ...NEW_DUPLEX, phase: "active", sourceEnded: true },
    },
    panel: null,
    tab: "metrics",
    source: "microphone",
    file: null,
  } as unknown as CallView;
  render(callStage(view), document.body);
  const notices = document.querySelector(".notices");
  expect(notices?.textContent).toContain("Your microphone has stopped");
  const [use, open] = notices?.querySelectorAll("button") ?? [];
  use?.click();
  open?.click();
  expect(actions.useMicrophone).toHaveBeenCalledOnce();
  expect(actions.show).toHaveBeenCalledWith("settings");
});
