// @vitest-environment happy-dom

import { html, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { describe, expect, it } from "vitest";
import { BaseElement } from "./base-element.ts";
import { buildPage, inTurn, isBuilt } from "./page-build.ts";

const rendered: string[] = [];

@customElement("an-test-leaf")
class Leaf extends BaseElement {
  protected override render(): TemplateResult {
    rendered.push(this.title);
    setTimeout(() => rendered.push(`task after ${this.title}`));
    const end = performance.now() + 10;
    while (performance.now() < end); // longer than a turn
    return html`${this.title}`;
  }
}

@customElement("an-test-branch")
class Branch extends BaseElement {
  protected override render(): TemplateResult {
    rendered.push("branch");
    return html`<an-test-leaf title="one"></an-test-leaf><an-test-leaf title="two"></an-test-leaf>`;
  }
}

describe("a page that is built", () => {
  it("renders elements in order, and gives up the task after a long one", async () => {
    const built = buildPage();
    document.body.append(new Branch());
    await built;
    expect(rendered).toEqual(["branch", "one", "task after one", "two", "task after two"]);
    expect(isBuilt.value).toBe(true);
    expect(document.body.textContent).toContain("two");
  });

  it("renders later elements without a turn", async () => {
    const leaf = new Leaf();
    leaf.title = "late";
    document.body.append(leaf);
    await leaf.updateComplete;
    expect(rendered).toContain("late");
  });

  it("reports what fails in its turn", async () => {
    const failing = inTurn(() => {
      throw new Error("no");
    });
    const checked = expect(failing).rejects.toThrow("no");
    await buildPage();
    await checked;
  });
});
