import { html, nothing, type TemplateResult } from "lit";
import { keyed } from "lit/directives/keyed.js";
import "../components/timer.ts";
import "../components/preset-selector.ts";
import "../components/queue-panel.ts";
import type { Preset } from "../api/catalog.ts";
import { capabilities, limitations } from "../shell/capabilities.ts";
import { menu } from "../shell/menu.ts";
import { applyPreset } from "./call-presets.ts";
import { callStatus, statusAnnouncement } from "./call-status.ts";
import { type CallView, isBusy } from "./call-view.ts";
import { callControls, isEnabled, startControls } from "./controls.ts";
import { displayButtons } from "./display.ts";
import { endedScreen } from "./ended-screen.ts";
import { callNotices } from "./notices.ts";
import { panelButtons } from "./panel.ts";
import "./about.ts";
import { showsVideo, videoPreview } from "./call-camera.ts";
import { callStrings } from "./strings.ts";
import "./stage.css";
import { customElement, property, state } from "lit/decorators.js";
import { loudnessShare } from "../components/orb-shape.ts";
import type { OrbMode } from "../components/voice-orb.ts";
import "../components/voice-orb.ts";
import type { TranscriptLine } from "../session/transcript.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import type { CallController } from "./call-controller.ts";

/** The main area: status, video or orb, captions, notices and controls. It fills the window in a call. */
export function callStage(view: CallView): TemplateResult {
  const { sessionState } = view.state;
  const hasVideo = showsVideo(view);
  const overVideo = hasVideo && isBusy(view.state);
  const waits = sessionState.queue === null ? "" : "queued";
  return html`<section class="stage ${sessionState.phase} ${waits} ${hasVideo ? "has-video" : ""} ${overVideo ? "dark-scheme" : ""} ${view.faded ? "faded" : ""}">
    <div class="top">
      <div class="grow">${isBusy(view.state) ? head(view) : html`<an-service-badge></an-service-badge>`}</div>
      <div class="tools">${displayButtons(view)} ${panelButtons(view)}</div>
    </div>
    ${callNotices(view)}
    <div class="middle">${middle(view)}</div>
    <div class="bottom">${bottom(view)}</div>
    <p class="visually-hidden" role="status">${statusAnnouncement(sessionState)}</p>
  </section>`;
}

function head({ call, state }: CallView): TemplateResult {
  const t = callStrings();
  const { since, until, sessionState } = state;
  return html`<div class="row tight">
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
    </div>`;
}

function consent(recorded: boolean): TemplateResult {
  const t = callStrings();
  const [text, hint] = recorded ? [t.recorded, t.recordedHint] : [t.notRecorded, t.notRecordedHint];
  return html`<span class="badge ${recorded ? "danger dot" : ""}" title=${hint}>${text}</span>`;
}

function middle(view: CallView): TemplateResult {
  const { sessionState } = view.state;
  if (sessionState.phase === "ended") return endedScreen(view);
  if (sessionState.phase === "idle") return invitation(view);
  const { mode, title, hint } = callStatus(sessionState, view.state.pending);
  const orb = html`${showsVideo(view) ? videoPreview(view) : nothing}
    <an-call-orb .call=${view.call} .mode=${mode}></an-call-orb>`;
  if (sessionState.queue !== null) {
    return html`${orb}<an-queue-panel .status=${sessionState.queue} @leave=${view.actions.endCall}></an-queue-panel>`;
  }
  return html`${orb}
    <div class="call-status">
      <p class="title">${title}</p>
      <p class="soft">${hint}</p>
    </div>
    ${captions(sessionState.transcript)}`;
}

/** Before a call. What the model cannot do replaces what it can, so that nothing moves. */
function invitation(view: CallView): TemplateResult {
  const t = callStrings();
  const { kind } = view.call;
  const limits = limitations(capabilities.value, { camera: kind === "omni" });
  return html`<div class="presets">${presetChips(view)}</div>
    ${showsVideo(view) ? videoPreview(view) : html`<an-call-orb .call=${view.call}></an-call-orb>`}
    <div class="call-status">
      <h1>${t.headline}</h1>
      ${isEnabled(kind) ? html`<p class="soft ${limits ? "limits" : ""}">${limits || t.invitation[kind]}</p>` : unavailable()}
    </div>`;
}

function presetChips({ call, settings, values }: CallView): unknown {
  return keyed(
    call.kind,
    html`<an-preset-selector
      chips
      .page=${call.kind === "omni" ? "omni" : "audio_duplex"}
      .chosen=${values.preset}
      @choose=${({ detail }: CustomEvent<Preset>) => applyPreset(settings, detail)}
    ></an-preset-selector>`,
  );
}

function unavailable(): TemplateResult {
  const t = callStrings();
  return html`<p class="strong">${t.noCalls}</p>
    <p class="soft">${menu.value.length === 0 ? t.noPages : t.otherPages}</p>`;
}

function bottom(view: CallView): TemplateResult {
  const { phase } = view.state.sessionState;
  if (phase === "queued") return html`${nothing}`; // the queue panel has a Leave button
  return phase === "idle" || phase === "ended" ? startControls(view) : callControls(view);
}

/** The orb, animated by the audio levels of both sides. */
@customElement("an-call-orb")
export class CallOrb extends BaseElement {
  #unsubscribe: () => void = () => undefined;

  @property({ attribute: false }) call: CallController | null = null;
  @property({ attribute: false }) mode: OrbMode = "idle";

  @state() private userLevel = 0;
  @state() private modelLevel = 0;

  override disconnectedCallback(): void {
    this.#unsubscribe();
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (!changed.has("call")) return;
    this.#unsubscribe();
    const leave = this.call?.on("levels", ({ user, model }) => {
      this.userLevel = loudnessShare(user.peak);
      this.modelLevel = loudnessShare(model.peak);
    });
    this.#unsubscribe = leave ?? this.#unsubscribe;
  }

  protected override render(): TemplateResult {
    return html`<an-voice-orb .mode=${this.mode} .userLevel=${this.userLevel} .modelLevel=${this.modelLevel}></an-voice-orb>`;
  }
}

/** The last words of both sides. Long texts show their end. The panel has the whole transcript. */
export function captions(lines: readonly TranscriptLine[]): TemplateResult {
  const last = [
    lines.findLast(({ role }) => role === "user"),
    lines.findLast(({ role }) => role === "model"),
  ].filter((line) => line !== undefined);
  return html`<div class="captions">${last.sort((a, b) => a.id - b.id).map(caption)}</div>`;
}

function caption({ role, text, cut }: TranscriptLine): TemplateResult {
  const t = callStrings();
  return html`<p class="caption ${role}">
    <span
      ><span class="visually-hidden">${role === "user" ? t.you : t.model}: </span>${text.trim()}${
        cut ? html` <small>${t.interrupted}</small>` : nothing
      }</span
    >
  </p>`;
}
