import { html, nothing, type TemplateResult } from "lit";
import { common } from "../i18n/common.ts";
import type { Problem, SessionEnd } from "../session/session-state.ts";
import { icon } from "../ui/icon.ts";
import { deviceErrorText } from "./device-select.ts";

/** What happened and what the user can do. */
export interface ProblemText {
  readonly title: string;
  readonly remedy: string;
}

/** Text for an error during a session. Without a known remedy it shows the server's message. */
export function problemText({ code, message }: Problem): ProblemText {
  const known: Readonly<Record<string, ProblemText>> = common().sessionErrors;
  const { title, remedy } = known[code] ?? { title: common().errors.failed, remedy: "" };
  return { title, remedy: remedy || message };
}

/** Text for the end of a session. Null if the user ended it. */
export function sessionEndText(end: SessionEnd): ProblemText | null {
  const { sessionErrors, deviceCheck } = common();
  switch (end.by) {
    case "user":
      return null;
    case "timeout":
      return sessionErrors.timeout;
    case "device":
      return { title: deviceCheck.unusable, remedy: deviceErrorText(end.cause, "microphone") };
    default:
      return problemText(end);
  }
}

/**
 * Notice that explains why a session ended. Empty if the user ended it, or if the connection was
 * lost, which the connection banner shows.
 */
export function sessionEndNotice(end: SessionEnd | null): TemplateResult | typeof nothing {
  const text = end?.code === "lost" ? null : end && sessionEndText(end);
  if (!text) return nothing;
  const calm = end?.by === "timeout";
  return html`<div class="callout ${calm ? "caution" : "danger"}" role="alert">
    ${icon(calm ? "clock" : "alert")}
    <div class="grow">
      <p class="strong">${text.title}</p>
      <p class="soft">${text.remedy}</p>
    </div>
  </div>`;
}
