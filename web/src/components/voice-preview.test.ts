// @vitest-environment happy-dom

import { afterEach, expect, it, vi } from "vitest";
import { ApiError } from "../api/http.ts";
import { clipOf } from "./voice-list.ts";
import { previewedVoice, togglePreview } from "./voice-preview.ts";

afterEach(() => vi.unstubAllGlobals());

it("offers the preview of a voice again if its audio could not be fetched", async () => {
  vi.stubGlobal("fetch", async () => new Response("{}", { status: 500 }));
  await expect(togglePreview({ key: "ada", load: () => clipOf("ada") })).rejects.toThrow(ApiError);
  expect(previewedVoice.value).toBeNull();
});
