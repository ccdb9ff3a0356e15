// @vitest-environment happy-dom

import { html, render } from "lit";
import { expect, test, vi } from "vitest";
import { inactive } from "./inactive.ts";

test("an inactive button ignores presses, submits nothing and keeps the focus", () => {
  const page = document.createElement("main");
  document.body.append(page);
  const [onClick, onSubmit] = [vi.fn(), vi.fn((event: Event) => event.preventDefault())];
  const show = (isInactive: boolean): HTMLButtonElement => {
    render(
      html`<form @submit=${onSubmit}><button ${inactive(isInactive)} @click=${onClick}>Save</button></form>`,
      page,
    );
    return page.querySelector("button") as HTMLButtonElement;
  };
  const button = show(false);
  button.focus();
  button.click();
  expect([onClick.mock.calls.length, onSubmit.mock.calls.length]).toEqual([1, 1]);
  expect(button.hasAttribute("aria-disabled")).toBe(false);
  show(true).click();
  expect([onClick.mock.calls.length, onSubmit.mock.calls.length]).toEqual([1, 1]);
  expect(button.getAttribute("aria-disabled")).toBe("true");
  expect(document.activeElement).toBe(button);
  show(false).click();
  expect([onClick.mock.calls.length, onSubmit.mock.calls.length]).toEqual([2, 2]);
});
