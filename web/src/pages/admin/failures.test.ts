// @vitest-environment happy-dom

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { isBuilt } from "../../ui/page-build.ts";
import "./recordings.ts";
import "./settings.ts";

/** What the server answers to each request, in order. */
let answers: ((response: Response) => void)[] = [];

beforeEach(() => {
  isBuilt.set(true);
  answers = [];
  vi.stubGlobal("fetch", () => new Promise<Response>((resolve) => answers.push(resolve)));
});
afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

const failed = () => new Response("{}", { status: 500 });
const page = (complete: boolean) =>
  Response.json({ sessions: [], total: 0, limit: 25, offset: 0, complete });

async function opened(tag: string): Promise<HTMLElement> {
  const element = document.createElement(tag);
  document.body.append(element);
  await vi.waitFor(() => expect(answers.length).toBe(1), 5000);
  return element;
}

const retry = (element: HTMLElement) =>
  [...element.querySelectorAll("button")].find((one) => one.textContent?.includes("Try again"));

test.each(["an-admin-recordings", "an-admin-app-switches", "an-admin-estimates"])(
  "%s can be loaded again after a failure",
  async (tag) => {
    const element = await opened(tag);
    expect(element.querySelector(".spinner")).not.toBeNull();
    answers[0]?.(failed());
    await vi.waitFor(() => expect(retry(element)).toBeDefined(), 5000);
    expect(element.querySelector(".spinner")).toBeNull();
    retry(element)?.click();
    await vi.waitFor(() => expect(element.querySelector(".spinner")).not.toBeNull(), 5000);
    expect(answers.length).toBe(2);
  },
);

test("a failed filter shows no rows of the old one, and an outdated failure changes nothing", async () => {
  const element = await opened("an-admin-recordings");
  answers[0]?.(page(true));
  await vi.waitFor(() => expect(element.textContent).toContain("No recordings"), 5000);
  const [kind] = element.querySelectorAll("select");
  kind?.dispatchEvent(new Event("change"));
  kind?.dispatchEvent(new Event("change"));
  await vi.waitFor(() => expect(answers.length).toBe(3), 5000);
  answers[2]?.(page(true));
  answers[1]?.(failed());
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(element.textContent).toContain("No recordings");
  kind?.dispatchEvent(new Event("change"));
  await vi.waitFor(() => expect(answers.length).toBe(4), 5000);
  answers[3]?.(failed());
  await vi.waitFor(() => expect(retry(element)).toBeDefined(), 5000);
  expect(element.textContent).not.toContain("No recordings");
});
