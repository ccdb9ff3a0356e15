// @vitest-environment happy-dom

import { afterEach, expect, test, vi } from "vitest";
import { sizeObserver } from "./size-observer.ts";

afterEach(() => vi.unstubAllGlobals());

test("a change of size is handled in the next frame", () => {
  let report: ResizeObserverCallback = () => undefined;
  let frame: FrameRequestCallback = () => undefined;
  vi.stubGlobal(
    "ResizeObserver",
    class {
      constructor(callback: ResizeObserverCallback) {
        report = callback;
      }
    },
  );
  vi.stubGlobal("requestAnimationFrame", (callback: FrameRequestCallback) => {
    frame = callback;
    return 1;
  });
  const widths: number[] = [];
  const observer = sizeObserver(({ contentRect }) => widths.push(contentRect.width));
  const entries = [1, 2].map((width) => ({ contentRect: { width } }) as ResizeObserverEntry);
  report(entries, observer);
  expect(widths).toEqual([]);
  frame(0);
  expect(widths).toEqual([2]);
});
