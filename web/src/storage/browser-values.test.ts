// @vitest-environment happy-dom

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it, test } from "vitest";
import { BrowserValues, localValues } from "./browser-values.ts";

const refuse = (name: string) => () => {
  throw new DOMException("not here", name);
};

afterEach(() => localStorage.clear());

it("keeps values in the browser", () => {
  localValues.set("a", "1");
  expect(localStorage.getItem("a")).toBe("1");
  expect(localValues.areKept).toBe(true);
  localValues.delete("a");
  expect(localValues.get("a")).toBeNull();
});

test.each([
  ["blocked", refuse("SecurityError")],
  ["null", () => null as unknown as Storage],
  ["absent", () => undefined as unknown as Storage],
  ["without methods", () => ({}) as Storage],
])("has values in memory if the storage is %s", (_, area) => {
  const values = new BrowserValues(area);
  expect(values.get("a")).toBeNull();
  values.set("a", "1");
  expect([values.get("a"), values.areKept]).toEqual(["1", false]);
  values.delete("a");
  expect(values.get("a")).toBeNull();
});

it("prefers what a full storage did not take to what it has", () => {
  let isFull = false;
  const setItem = (key: string, value: string) =>
    isFull ? refuse("QuotaExceededError")() : localStorage.setItem(key, value);
  const getItem = (key: string) => localStorage.getItem(key);
  const values = new BrowserValues(() => ({ getItem, setItem }) as Storage);
  for (const [value, full] of [
    ["1", false],
    ["2", true],
    ["3", false],
  ] as const) {
    isFull = full;
    values.set("a", value);
    expect([values.get("a"), values.areKept]).toEqual([value, !full]);
    expect(localStorage.getItem("a")).toBe(full ? "1" : value);
  }
});

it("is the only way to the storage of the browser", () => {
  const root = join(import.meta.dirname, "..");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" });
  const found = files
    .filter((name) => name.endsWith(".ts") && !name.includes(".test."))
    .filter((name) =>
      /\b(localStorage|sessionStorage|indexedDB)\b|\bdocument\.cookie\b/.test(
        readFileSync(join(root, name), "utf8"),
      ),
    );
  expect(found.sort()).toEqual(["storage/browser-values.ts", "storage/database.ts"]);
});
