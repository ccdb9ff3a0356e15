// @vitest-environment happy-dom

import { html, nothing, render, type TemplateResult } from "lit";
import { beforeAll, beforeEach, expect, it, test } from "vitest";
import { onOwnNodes, watchTranslators } from "./translated-nodes.ts";

let place: HTMLElement;

beforeAll(() => watchTranslators(document.body));
beforeEach(() => {
  place = document.createElement("p");
  document.body.replaceChildren(place);
});

/** Renders as an element does. */
function show(content: TemplateResult): void {
  onOwnNodes(place, () => render(content, place));
}

/** `‹text›` in the form of Google Translate. */
function translation(text: string): HTMLElement {
  const outer = document.createElement("font");
  outer.append(document.createElement("font"));
  (outer.firstChild as Element).textContent = `‹${text.trim()}›`;
  return outer;
}

function texts(): Text[] {
  const found: Text[] = [];
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) found.push(walker.currentNode as Text);
  return found.filter((one) => one.data.trim() && !one.parentElement?.closest("font"));
}

const translators: Record<string, () => void> = {
  replaces: () => {
    for (const one of texts()) one.replaceWith(translation(one.data));
  },
  "adds, then removes": () => {
    for (const one of texts()) {
      one.before(translation(one.data));
      one.remove();
    }
  },
  "removes, then adds": () => {
    for (const one of texts()) {
      const { parentNode, nextSibling } = one;
      one.remove();
      parentNode?.insertBefore(translation(one.data), nextSibling);
    }
  },
  "merges neighbours": () => {
    const all = texts();
    for (const one of all) {
      if (!one.isConnected) continue;
      const run = all.filter((other) => other.parentNode === one.parentNode);
      one.before(translation(run.map(({ data }) => data).join("")));
      for (const other of run) other.remove();
    }
  },
};

const counted = (n: number, more: unknown = nothing) =>
  html`<b>${n} of</b> ${more} words, <i>${n === 1 ? "one" : html`<u>many</u>`}</i> and ${n}<em>end</em>`;

test.each(Object.entries(translators))(
  "updates are right if a translator %s",
  async (_, translate) => {
    show(counted(1));
    translate();
    await Promise.resolve();
    for (const n of [2, 1, 3, 4, 1]) {
      show(counted(n, n > 2 ? html`<s>more</s>` : nothing));
      expect(place.textContent?.replaceAll(/[‹›\s]/g, "")).toBe(
        `${n}of${n > 2 ? "more" : ""}words,${n === 1 ? "one" : "many"}and${n}end`,
      );
      translate();
      if (n === 3) translate();
      else await Promise.resolve();
    }
  },
);

it("keeps the translation of what does not change", async () => {
  const page = (n: number) => html`<b>${"Listening"}</b> <i>${n}</i>`;
  show(page(1));
  translators["replaces"]?.();
  await Promise.resolve();
  show(page(2));
  expect(place.textContent).toBe("‹Listening› 2");
  const font = place.querySelector("b font");
  translators["replaces"]?.();
  show(page(3));
  expect(place.textContent).toBe("‹Listening› 3");
  expect(place.querySelector("b font")).toBe(font);
});

it("forgets translations that the user has undone, and texts that a script replaced", async () => {
  const page = (n: number) => html`<b>${"Listening"}</b> <i>${n}</i> <output></output>`;
  show(page(1));
  const output = place.querySelector("output") as Element;
  const original = texts();
  translators["replaces"]?.();
  await Promise.resolve();
  place.querySelectorAll("b > font, i > font").forEach((font, at) => {
    font.replaceWith(original[at] as Text);
  });
  for (const clock of ["0:01", "0:02", "0:03"]) {
    output.textContent = clock;
    translators["replaces"]?.();
    await Promise.resolve();
  }
  output.textContent = "0:04";
  show(page(2));
  expect(place.textContent).toBe("‹Listening› 2 0:04");
});
