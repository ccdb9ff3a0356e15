import { html, nothing, type TemplateResult } from "lit";
import type { SessionEnd } from "../session/session-state.ts";
import { icon } from "../ui/icon.ts";
import { sessionEndText } from "./session-end.ts";

/**
 * Why a conversation ended and what can be done; nothing where the user wanted it, or where the
 * session banner says it (a connection that was lost for too long).
 */
export function sessionEndNotice(end: SessionEnd | null): TemplateResult | typeof nothing {
  const words = end?.code === "lost" ? null : end && sessionEndText(end);
  if (!words) return nothing;
  const calm = end?.by === "timeout";
  return html`<div class="callout ${calm ? "caution" : "danger"}" role="alert">
    ${icon(calm ? "clock" : "alert")}
    <div class="grow">
      <p class="strong">${words.title}</p>
      <p class="soft">${words.remedy}</p>
    </div>
  </div>`;
}
