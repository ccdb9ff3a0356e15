// @vitest-environment happy-dom

import { html, render } from "lit";
import { beforeEach, expect, test, vi } from "vitest";
import { dialog } from "./dialog.ts";

const onClose = vi.fn();
let page = document.createElement("main");

beforeEach(() => {
  onClose.mockClear();
  page.remove();
  page = document.createElement("main");
  document.body.append(page);
});

/** Renders the dialog and returns it after it has been opened or closed. */
async function shown(open: boolean): Promise<HTMLDialogElement> {
  render(dialog({ open, title: "Key", body: html`<input />`, onClose }), page);
  await Promise.resolve();
  return page.querySelector("dialog") as HTMLDialogElement;
}

test("a dialog that opens again before the event of its end stays open", async () => {
  await shown(true);
  await shown(false);
  const element = await shown(true);
  onClose.mockClear();
  element.dispatchEvent(new Event("close"));
  expect(element.open).toBe(true);
  expect(onClose).not.toHaveBeenCalled();
});

test("a dialog that the browser closes reports it", async () => {
  const element = await shown(true);
  element.open = false;
  element.dispatchEvent(new Event("close"));
  expect(onClose).toHaveBeenCalledOnce();
});
