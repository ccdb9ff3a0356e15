// @vitest-environment happy-dom

import { expect, it } from "vitest";
import { QueuePanel } from "./session-status.ts";

const PLACE = { position: 1, length: 1, etaS: null, reason: null, at: 0, stale: false };

async function shown(change: Partial<QueuePanel["status"]>): Promise<string> {
  const panel = new QueuePanel();
  panel.status = { ...PLACE, ...change };
  document.body.append(panel);
  await panel.updateComplete;
  const text = panel.querySelector("div")?.textContent ?? "";
  panel.remove();
  return text.replaceAll(/\s+/g, " ");
}

it.each([
  ["no_worker", "The model is not running"],
  ["kind_not_served", "This kind of conversation is not available now"],
  ["worker_loading", "The model is starting"],
  ["of a newer server", "The model is not running"],
])("shows the reason %s instead of an estimate", async (reason, title) => {
  const text = await shown({ reason });
  expect(text).toContain(`${title} Position 1 of 1 Keep this page open`);
});

it("shows the estimate when a worker can take the session", async () => {
  expect(await shown({ etaS: 119, at: performance.now() })).toMatch(/You are next .* about 1:\d\d/);
});
