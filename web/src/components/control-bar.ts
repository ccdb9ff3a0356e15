import { html, type TemplateResult } from "lit";
import { ifDefined } from "lit/directives/if-defined.js";
import { type IconName, icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import "./control-bar.css";

export interface BarControl {
  readonly iconName: IconName;
  readonly label: string;
  /** A shorter label that is shown. */
  readonly shown?: string;
  readonly hint?: string;
  readonly tone?: "end" | "go" | "mute";
  readonly pressed?: boolean;
  readonly disabled?: boolean;
  /** Value of `aria-keyshortcuts`. */
  readonly keys?: string;
  readonly run: () => void;
}

/** The round buttons of a conversation in progress. `label`: for screen readers. */
export function controlBar(label: string, controls: readonly BarControl[]): TemplateResult {
  return html`<div class="call-controls" role="group" aria-label=${label}>${controls.map(control)}</div>`;
}

function control(spec: BarControl): TemplateResult {
  const { iconName, label, shown, disabled = false } = spec;
  return html`<button
    class="call-control ${spec.tone ?? ""}"
    title=${ifDefined(spec.hint)}
    aria-label=${ifDefined(shown && label)}
    aria-pressed=${ifDefined(spec.pressed)}
    aria-keyshortcuts=${ifDefined(spec.keys)}
    ${inactive(disabled)}
    @click=${spec.run}
  >
    <span class="circle">${icon(iconName)}</span><span class="name">${shown ?? label}</span>
  </button>`;
}
