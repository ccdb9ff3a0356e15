import { html, nothing, type TemplateResult } from "lit";
import { common } from "../i18n/common.ts";
import { icon } from "./icon.ts";
import "./side-panel.css";

const ID = "side-panel";

/**
 * A panel beside the stage. On narrow screens it is a sheet that `sidePanelButton` opens. One per
 * page.
 */
export function sidePanel({
  label,
  actions = nothing,
  body,
}: {
  readonly label: string;
  /** Buttons beside the one that closes it. */
  readonly actions?: TemplateResult | typeof nothing;
  readonly body: TemplateResult;
}): TemplateResult {
  return html`<aside class="side-panel" id=${ID} popover aria-label=${label}>
    <header>
      <h2>${label}</h2>
      <div class="row tight still">
        ${actions}
        <button
          class="button quiet square"
          aria-label=${common().close}
          popovertarget=${ID}
          popovertargetaction="hide"
        >
          ${icon("close")}
        </button>
      </div>
    </header>
    <div class="stack">${body}</div>
  </aside>`;
}

/** Button for the page header. Hidden if the panel fits beside the stage. */
export function sidePanelButton(label: string): TemplateResult {
  return html`<button class="button side-panel-button" popovertarget=${ID}>
    ${icon("settings")} <span>${label}</span>
  </button>`;
}
