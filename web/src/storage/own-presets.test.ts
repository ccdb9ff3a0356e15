// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { deleteOwnPreset, ownPresets, saveOwnPreset } from "./own-presets.ts";

const CONTENT = { texts: ["Be brief."], greeting: "", voice: null, speech: "ada" };

it("keeps presets of other tabs, and drops invalid ones", () => {
  const other = { id: "own_1", name: "Other", ...CONTENT };
  const invalid = { ...other, id: "own_2", texts: [7] };
  localStorage.setItem("antiphon.presets", JSON.stringify([other, invalid, null]));
  const { id } = saveOwnPreset("Brief", CONTENT);
  saveOwnPreset("Shorter", CONTENT, "own_1");
  expect(ownPresets.value.map(({ name }) => name)).toEqual(["Shorter", "Brief"]);
  deleteOwnPreset("own_1");
  expect(JSON.parse(localStorage.getItem("antiphon.presets") ?? "")).toEqual([
    { id, name: "Brief", ...CONTENT },
  ]);
});
