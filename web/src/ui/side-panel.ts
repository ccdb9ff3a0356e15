import { html, type TemplateResult } from "lit";
import { common } from "../i18n/common.ts";
import { icon } from "./icon.ts";
import "./side-panel.css";

const ID = "side-panel";

/** What lies beside the stage; where the screen is narrow, a sheet that `sidePanelButton` opens. One per page. */
export function sidePanel({
  label,
  body,
}: {
  readonly label: string;
  readonly body: TemplateResult;
}): TemplateResult {
  return html`<aside class="side-panel" id=${ID} popover aria-label=${label}>
    <header>
      <h2>${label}</h2>
      <button
        class="button quiet square"
        aria-label=${common().close}
        popovertarget=${ID}
        popovertargetaction="hide"
      >
        ${icon("close")}
      </button>
    </header>
    <div class="stack">${body}</div>
  </aside>`;
}

/** For the page's head; gone where the panel has room beside the stage. */
export function sidePanelButton(label: string): TemplateResult {
  return html`<button class="button side-panel-button" popovertarget=${ID}>
    ${icon("settings")} <span>${label}</span>
  </button>`;
}
