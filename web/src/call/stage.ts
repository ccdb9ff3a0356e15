import { html, nothing, type TemplateResult } from "lit";
import "../components/timer.ts";
import "../components/queue-panel.ts";
import { capabilities, limitations } from "../shell/capabilities.ts";
import { icon } from "../ui/icon.ts";
import "./call-orb.ts";
import { callStatus, statusAnnouncement } from "./call-status.ts";
import type { CallView } from "./call-view.ts";
import { callControls, startControls } from "./controls.ts";
import { endedScreen } from "./ended-screen.ts";
import { callNotices } from "./notices.ts";
import { callStrings } from "./strings.ts";
import { showsVideo, videoPreview } from "./video-preview.ts";
import "./stage.css";
import "./landscape.css";

/** The main area of a call: status, video or orb, notices and controls. */
export function callStage(view: CallView): TemplateResult {
  const { sessionState } = view.state;
  const waits = sessionState.queue === null ? "" : "queued";
  return html`<section class="stage ${sessionState.phase} ${waits} ${showsVideo(view) ? "has-video" : ""}">
    <div class="top">${head(view)} ${panelButton(view)}</div>
    ${callNotices(view)}
    <div class="middle">${middle(view)}</div>
    <div class="bottom">${bottom(view)}</div>
    <p class="visually-hidden" role="status">${statusAnnouncement(sessionState)}</p>
  </section>`;
}

function head({ call, state }: CallView): TemplateResult {
  const t = callStrings();
  const { since, until, sessionState } = state;
  return html`<div class="grow">
    <div class="row tight">
      <h1>${t.title[call.kind]}</h1>
      ${
        since !== null
          ? html`<an-timer class="soft number" .from=${since} .until=${until}></an-timer>`
          : nothing
      }
    </div>
    <div class="row tight">
      ${sessionState.phase === "active" || sessionState.phase === "paused" ? consent(state.recorded) : nothing}
      ${
        sessionState.simulated
          ? html`<span class="badge caution" title=${t.simulatedHint}>${t.simulated}</span>`
          : nothing
      }
    </div>
  </div>`;
}

function consent(recorded: boolean): TemplateResult {
  const t = callStrings();
  const [text, hint] = recorded ? [t.recorded, t.recordedHint] : [t.notRecorded, t.notRecordedHint];
  return html`<span class="badge ${recorded ? "danger dot" : ""}" title=${hint}>${text}</span>`;
}

/** Opens the panel where it has no room beside the stage. */
function panelButton({ state, actions }: CallView): TemplateResult {
  const talks = state.sessionState.phase !== "idle";
  return html`<button
    class="button quiet square opens-panel"
    aria-label=${callStrings().openTranscript}
    popovertarget="side-panel"
    @click=${() => actions.open(talks ? "transcript" : "settings")}
  >
    ${icon(talks ? "chat" : "settings")}
  </button>`;
}

function middle(view: CallView): TemplateResult {
  const { sessionState } = view.state;
  if (sessionState.phase === "ended") return endedScreen(view);
  const { mode, title, hint } = callStatus(sessionState);
  const orb = html`${showsVideo(view) ? videoPreview(view) : nothing}
    <an-call-orb .call=${view.call} .mode=${mode}></an-call-orb>`;
  if (sessionState.queue !== null) {
    return html`${orb}<an-queue-panel .status=${sessionState.queue} @leave=${view.actions.endCall}></an-queue-panel>`;
  }
  return html`${orb}
    <div class="call-status">
      <p class="title">${title}</p>
      <p class="soft">${sessionState.phase === "idle" ? invitation(view) : hint}</p>
    </div>
    ${caption(view)}`;
}

/** What the model cannot do replaces what it can, so that nothing moves when it becomes known. */
function invitation({ call }: CallView): TemplateResult {
  const limits = limitations(capabilities.value, { camera: call.kind === "omni" });
  return limits
    ? html`<span class="limits">${limits}</span>`
    : html`${callStrings().invitation[call.kind]}`;
}

/** The model's latest words, shown while the transcript is hidden. */
function caption({ state }: CallView): TemplateResult | typeof nothing {
  const last = state.sessionState.transcript.at(-1);
  if (state.sessionState.phase !== "active" || last?.role !== "model") return nothing;
  return html`<p class="caption" aria-hidden="true"><span>${last.text}</span></p>`;
}

function bottom(view: CallView): TemplateResult {
  const { phase } = view.state.sessionState;
  if (phase === "queued") return html`${nothing}`; // the queue panel has a Leave button
  return phase === "idle" || phase === "ended" ? startControls(view) : callControls(view);
}
