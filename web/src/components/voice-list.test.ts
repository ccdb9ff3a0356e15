// @vitest-environment happy-dom

import { afterEach, expect, it, vi } from "vitest";
import { ApiError } from "../api/http.ts";
import { previewedVoice, togglePreview } from "./voice-list.ts";

afterEach(() => vi.unstubAllGlobals());

it("offers the preview of a voice again if its audio could not be fetched", async () => {
  vi.stubGlobal("fetch", async () => new Response("{}", { status: 500 }));
  await expect(togglePreview("ada")).rejects.toThrow(ApiError);
  expect(previewedVoice.value).toBeNull();
});
