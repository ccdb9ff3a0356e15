import { html, nothing, type TemplateResult } from "lit";
import { type ProblemText, sessionEndText } from "../components/session-end.ts";
import "../components/recording-actions.ts";
import { formatClock } from "../i18n/format.ts";
import type { SessionEnd } from "../session/session-state.ts";
import { icon } from "../ui/icon.ts";
import type { CallState } from "./call-controller.ts";
import type { CallView } from "./call-view.ts";
import { callStrings } from "./strings.ts";

/** Screen after a call: reason, duration and recordings. */
export function endedScreen({ call, state }: CallView): TemplateResult {
  const t = callStrings();
  const { end, recordingId } = state.sessionState;
  const reason = end && reasonText(end);
  const calm = end?.by === "user" || end?.by === "timeout";
  return html`<div class="ended-screen" role=${reason && !calm ? "alert" : nothing}>
    <span class="sign ${calm ? "" : "bad"}">${icon(calm ? "phone" : "alert")}</span>
    <p class="title">${reason?.title ?? t.state.ended}</p>
    ${reason ? html`<p class="soft">${reason.remedy}</p>` : nothing}
    ${state.since !== null ? html`<p class="soft">${t.duration(formatLength(state))}</p>` : nothing}
    ${
      state.since !== null
        ? html`<an-recording-actions
            .recordingId=${state.recorded ? recordingId : null}
            .audio=${state.recordings.audio}
            .video=${state.recordings.video}
            .namePrefix=${call.kind}
          ></an-recording-actions>`
        : nothing
    }
  </div>`;
}

function reasonText(end: SessionEnd): ProblemText | null {
  const t = callStrings();
  if (end.by === "timeout") return { title: t.pausedTooLong, remedy: t.pausedTooLongHint };
  return sessionEndText(end);
}

function formatLength({ since, until }: CallState): string {
  return formatClock(((until ?? performance.now()) - (since ?? 0)) / 1000);
}
