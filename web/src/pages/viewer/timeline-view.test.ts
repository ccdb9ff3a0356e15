// @vitest-environment happy-dom

import { expect, test } from "vitest";
import { ReplayPlayer } from "../../components/replay-player.ts";
import { Assets } from "./recording-loader.ts";
import { TimelineView } from "./timeline-view.ts";

test.each([60, 300])(
  "a timeline of %d s can be zoomed until the button is off",
  async (seconds) => {
    const view = new TimelineView();
    const lengthMs = seconds * 1000;
    view.timeline = { lengthMs, lines: [], segments: [], frames: [], events: [], costs: [] };
    view.replay = new ReplayPlayer(lengthMs);
    view.assets = new Assets("");
    document.body.append(view);
    const width = () => view.querySelector<HTMLElement>(".space")?.style.width;
    await view.updateComplete;
    const zoomIn = view.querySelectorAll<HTMLButtonElement>(
      ".tools button",
    )[1] as HTMLButtonElement;
    const widths = [width()];
    while (!zoomIn.hasAttribute("aria-disabled") && widths.length < 40) {
      zoomIn.click();
      await view.updateComplete;
      widths.push(width());
    }
    expect(widths.at(-1)).toBe(seconds === 60 ? "9600px" : "24000px");
    expect(new Set(widths).size).toBe(widths.length); // each press did something
    view.remove();
  },
);
