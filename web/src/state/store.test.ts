// @vitest-environment happy-dom

import { beforeEach, expect, test, vi } from "vitest";
import { choice, flag, optional, range, Settings, Store, text, textList } from "./store.ts";

const FIELDS = {
  mirror: flag(true),
  slices: range(1, 1, 9),
  facing: choice("user", ["user", "environment"]),
  prompt: text("Hello", 10),
  preset: optional(8),
};
const INITIAL = { mirror: true, slices: 1, facing: "user", prompt: "Hello", preset: null };
const KEY = "antiphon.settings.test";

const open = (version = 1) => new Settings("test", version, FIELDS, "preset");
const keep = (values: unknown, version = 1) =>
  localStorage.setItem(KEY, JSON.stringify({ version, values }));

beforeEach(() => localStorage.clear());

test("stored values are loaded again", () => {
  open().update({ mirror: false, preset: "coach" });
  expect(open().value).toEqual({ ...INITIAL, mirror: false, preset: "coach" });
});

test.each([
  { mirror: "yes" },
  { slices: "3" },
  { slices: Number.NaN },
  { facing: "up" },
  { prompt: "x".repeat(11) },
  { preset: 7 },
])("an invalid value becomes the initial value: %o", (values) => {
  keep({ ...values, mirror: "mirror" in values ? values.mirror : false });
  const expected = "mirror" in values ? INITIAL : { ...INITIAL, mirror: false };
  expect(open().value).toEqual(expected);
});

test("a number beyond its limits becomes the limit", () => {
  keep({ slices: 40 });
  expect(open().value.slices).toBe(9);
});

test.each(["{", "null", "[]", '"text"', '{"version":1}'])("invalid stored data: %s", (kept) => {
  localStorage.setItem(KEY, kept);
  expect(open().value).toEqual(INITIAL);
});

test("values of another version are discarded", () => {
  keep({ mirror: false }, 1);
  expect(open(2).value).toEqual(INITIAL);
});

test("an invalid update is ignored", () => {
  const settings = open();
  settings.update({ slices: 3 });
  settings.update({ slices: Number.NaN, mirror: false });
  expect(settings.value).toEqual({ ...INITIAL, slices: 3, mirror: false });
});

test("changed fields are reset, and can be restored", () => {
  const settings = open();
  settings.update({ mirror: false, slices: 3 });
  const changes = settings.changed(["slices"]);
  expect(changes).toEqual({ mirror: false });
  settings.reset(Object.keys(changes));
  expect(settings.value).toEqual({ ...INITIAL, slices: 3 });
  expect(open().value).toEqual(settings.value);
  expect(settings.changed(["slices"])).toEqual({});
  settings.update(changes);
  expect(settings.value).toEqual({ ...INITIAL, mirror: false, slices: 3 });
});

const SHARED = { microphone: optional(8), chimes: flag(true) };
const openShared = () => new Settings("shared", 1, SHARED);

test("an update keeps what another tab has stored", () => {
  const [one, other] = [openShared(), openShared()];
  one.update({ microphone: "usb" });
  other.update({ chimes: false });
  expect(other.value).toEqual({ microphone: "usb", chimes: false });
  expect(openShared().value).toEqual({ microphone: "usb", chimes: false });
});

test("a change of another tab is shown", () => {
  const settings = openShared();
  openShared().update({ microphone: "usb" });
  dispatchEvent(new StorageEvent("storage", { key: "antiphon.settings.other" }));
  expect(settings.value.microphone).toBeNull();
  dispatchEvent(new StorageEvent("storage", { key: "antiphon.settings.shared" }));
  expect(settings.value.microphone).toBe("usb");
});

test("values remain when the stored ones are deleted", () => {
  const settings = openShared();
  settings.update({ microphone: "usb" });
  localStorage.clear();
  settings.update({ chimes: false });
  expect(openShared().value).toEqual({ microphone: "usb", chimes: false });
});

test("the texts of another tab do not get into this tab, nor to another preset", () => {
  const [one, other] = [open(), open()];
  one.update({ prompt: "One" });
  dispatchEvent(new StorageEvent("storage", { key: KEY }));
  other.update({ slices: 3 });
  expect(other.value).toEqual({ ...INITIAL, slices: 3 });
  expect(open().value).toEqual({ ...INITIAL, prompt: "One", slices: 3 });
  one.update({ preset: "coach" });
  other.update({ prompt: "Other" });
  expect(open().value).toEqual({ ...INITIAL, prompt: "Other", slices: 3 });
});

test("listeners receive each change once, until they unsubscribe", () => {
  const settings = open();
  const received: boolean[] = [];
  const unsubscribe = settings.subscribe(({ mirror }) => received.push(mirror));
  settings.update({ mirror: false });
  unsubscribe();
  settings.update({ mirror: true });
  expect(received).toEqual([false]);
});

test("a listener that throws does not affect others, and its error is reported", () => {
  const report = vi.fn<(report: () => void) => void>();
  vi.stubGlobal("queueMicrotask", report);
  const store = new Store(0);
  const received: number[] = [];
  store.subscribe(() => {
    throw new Error("broken");
  });
  store.subscribe((value) => received.push(value));
  store.set(1);
  vi.unstubAllGlobals();
  expect(received).toEqual([1]);
  expect(report.mock.calls[0]?.[0]).toThrow("broken");
});

test("texts are stored unchanged, and other types are rejected", () => {
  const field = textList(10);
  expect(field.accept(["a", "b"])).toEqual(["a", "b"]);
  expect(field.accept(null)).toBeNull();
  for (const wrong of ["a", ["a", 1], ["x".repeat(11)], {}])
    expect(field.accept(wrong)).toBeUndefined();
});
