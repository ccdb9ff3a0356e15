import { expect, it } from "vitest";
import { cameraConstraints, frameEdge, scaledSize } from "./camera.ts";

it("scales down to the edge in both orientations, and never up", () => {
  expect(scaledSize(1920, 1080, 640)).toEqual({ width: 640, height: 360 });
  expect(scaledSize(1080, 1920, 640)).toEqual({ width: 360, height: 640 });
  expect(scaledSize(320, 240, 640)).toEqual({ width: 320, height: 240 });
});

it("returns undefined without a video frame", () => {
  expect(scaledSize(0, 0, 640)).toBeUndefined();
});

it("uses a larger frame for more slices", () => {
  expect(frameEdge(4)).toBeGreaterThan(frameEdge(1));
});

it("prefers a selected camera to a direction", () => {
  expect(cameraConstraints({ deviceId: "x", facing: "environment" })).toMatchObject({
    deviceId: { exact: "x" },
  });
  expect(cameraConstraints({ facing: "environment" })).toMatchObject({
    facingMode: { ideal: "environment" },
  });
});
