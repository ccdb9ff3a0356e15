import "../components/recording-actions.ts";
import { html, nothing, type TemplateResult } from "lit";
import { deviceErrorText } from "../components/device-select.ts";
import { keyButton, type ProblemText, sessionEndText } from "../components/session-status.ts";
import { transcriptButtons } from "../components/transcript-text.ts";
import { formatClock, formatDuration, formatNumber } from "../i18n/language.ts";
import type { SessionEnd } from "../session/session.ts";
import { icon } from "../ui/icon.ts";
import type { CallView } from "./call-actions.ts";
import type { CallState } from "./call-controller.ts";
import { callSummary, textLines } from "./call-summary.ts";
import { figure } from "./developer-panel.ts";
import { callStrings } from "./strings.ts";
import "./after-call.css";

/** Screen after a call: why it ended, figures, recordings and the transcript. */
export function afterCall(view: CallView): TemplateResult {
  const { call, state } = view;
  const { recordingId, transcript } = state.sessionState;
  if (state.since === null) return html`<div class="ended-screen">${ending(state)}</div>`;
  return html`<div class="ended-screen ${transcript.length > 0 ? "talked" : ""}">
    <div class="what">
      ${ending(state)} ${figures(state)}
      <an-recording-actions
        .recordingId=${state.recorded ? recordingId : null}
        .audio=${state.recordings.audio}
        .video=${state.recordings.video}
        .namePrefix=${call.kind}
      ></an-recording-actions>
    </div>
    ${transcript.length > 0 ? words(view) : nothing}
  </div>`;
}

function ending({ sessionState: { end }, cameraError }: CallState): TemplateResult {
  const reason = end && reasonText(end, cameraError);
  const calm = end?.by === "user" || end?.by === "timeout";
  return html`<div class="ending" role=${reason && !calm ? "alert" : nothing}>
    <span class="sign ${calm ? "" : "bad"}">${icon(calm ? "phone" : "alert")}</span>
    <p class="title">${reason?.title ?? callStrings().state.ended}</p>
    ${reason ? html`<p class="soft">${reason.remedy}</p>` : nothing} ${keyButton(end)}
  </div>`;
}

function reasonText(end: SessionEnd, cameraError: unknown): ProblemText | null {
  const t = callStrings();
  if (end.by === "device" && cameraError !== null) return noDevices(end.cause, cameraError);
  if (end.by === "timeout") return { title: t.pausedTooLong, remedy: t.pausedTooLongHint };
  return sessionEndText(end);
}

/** One press of “Block” usually refuses both devices. */
function noDevices(microphone: unknown, camera: unknown): ProblemText {
  const t = callStrings();
  const isBlocked = [microphone, camera].every((one) => (one as Error).name === "NotAllowedError");
  const remedies = [deviceErrorText(microphone, "microphone"), deviceErrorText(camera, "camera")];
  const remedy = isBlocked ? t.bothBlocked : [...new Set(remedies)].join(" ");
  return { title: t.noDevices, remedy };
}

function figures(state: CallState): TemplateResult {
  const t = callStrings().summary;
  const { lengthMs, interruptions, stopMs, answerMs, longestAnswerMs } = callSummary(state);
  const longest = longestAnswerMs === answerMs ? null : longestAnswerMs;
  return html`<dl class="facts">
    ${lengthMs === null ? nothing : figure(t.length, "", formatClock(lengthMs / 1000))}
    ${
      interruptions === null
        ? nothing
        : figure(
            t.interruptions,
            t.interruptionsHint,
            formatNumber(interruptions),
            stopMs === null ? "" : t.silentAfter(rounded(stopMs)),
          )
    }
    ${
      answerMs === null
        ? nothing
        : figure(
            t.answer,
            t.answerHint,
            rounded(answerMs),
            longest === null ? "" : t.longest(rounded(longest)),
          )
    }
  </dl>`;
}

/** The page hears and plays in blocks of 20 ms. */
function rounded(ms: number): string {
  return formatDuration(Math.round(ms / 20) * 20);
}

function words({ call, state }: CallView): TemplateResult {
  const { transcript } = state.sessionState;
  const title = callStrings().panels.transcript;
  return html`<section class="card words" aria-label=${title}>
    <header class="row apart still">
      <h2 class="small strong">${title}</h2>
      <div class="row tight still">${transcriptButtons(textLines(state), call.kind)}</div>
    </header>
    <an-transcript whole .lines=${transcript} .since=${state.since}></an-transcript>
  </section>`;
}
