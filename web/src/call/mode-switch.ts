import { html, nothing, type TemplateResult } from "lit";
import type { AppEntry } from "../api/catalog.ts";
import { menu, moveTo, pageIcon } from "../shell/menu.ts";
import { withPreset } from "../shell/preset-link.ts";
import { icon } from "../ui/icon.ts";
import type { CallKind } from "./call-settings.ts";
import type { CallView } from "./call-view.ts";
import { callStrings } from "./strings.ts";
import "./mode-switch.css";

const MODES = ["audio_duplex", "omni", "turnbased"];

/** The kind of call at a path. The home page has voice calls, unless only video calls are enabled. */
export function kindOf(path: string): CallKind {
  const enabled = menu.value.map(({ app_id }) => app_id);
  const videoOnly = enabled.includes("omni") && !enabled.includes("audio_duplex");
  return path === "/omni" || (path === "/" && videoOnly) ? "omni" : "audio";
}

/** Whether calls of this kind are enabled. */
export function isEnabled(kind: CallKind): boolean {
  return menu.value.some(({ app_id }) => app_id === appOf(kind));
}

/** Voice, video or text. Voice and video change this page, text is another one. */
export function modeSwitch({ call, values }: CallView): TemplateResult {
  const modes = menu.value
    .filter(({ app_id }) => MODES.includes(app_id))
    .sort((one, other) => MODES.indexOf(one.app_id) - MODES.indexOf(other.app_id));
  return html`<nav class="mode-switch segmented" aria-label=${callStrings().mode}>
    ${modes.map((app) => mode(app, app.app_id === appOf(call.kind), values.preset))}
  </nav>`;
}

function mode(app: AppEntry, chosen: boolean, preset: string | null): TemplateResult {
  const names: Readonly<Record<string, string>> = callStrings().modes;
  const isCall = app.app_id !== "turnbased";
  return html`<a
    href=${isCall ? app.route : withPreset(app.route, preset)}
    aria-current=${chosen ? "true" : nothing}
    @click=${(event: MouseEvent) => {
      if (!isCall || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      if (!chosen) moveTo(app.route);
    }}
    >${icon(pageIcon(app))}${names[app.app_id]}</a
  >`;
}

function appOf(kind: CallKind): string {
  return kind === "omni" ? "omni" : "audio_duplex";
}
