import "../components/preset-selector.ts";
import "./about.ts";
import "../components/voice-orb.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { keyed } from "lit/directives/keyed.js";
import { live } from "lit/directives/live.js";
import type { Preset } from "../api/catalog.ts";
import { microphoneLost } from "../components/device-select.ts";
import { sessionBadges } from "../components/session-status.ts";
import type { OrbMode } from "../components/voice-orb.ts";
import { formatClock } from "../i18n/language.ts";
import type { Limit } from "../session/duplex-session.ts";
import type { TranscriptLine } from "../session/transcript.ts";
import { capabilities, limitations } from "../shell/capabilities.ts";
import { menu } from "../shell/header.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { loudnessShare } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";
import { afterCall } from "./after-call.ts";
import { type CallView, isBusy } from "./call-actions.ts";
import type { CallController } from "./call-controller.ts";
import { applyPreset, type CallValues } from "./call-settings.ts";
import { callStatus, type InputProblem, statusAnnouncement, understood } from "./call-status.ts";
import { callControls, displayButtons, isEnabled, showsVideo, startControls } from "./controls.ts";
import { openings } from "./openings.ts";
import { panelButtons } from "./panel.ts";
import { callStrings } from "./strings.ts";
import { words } from "./words.ts";
import "./stage.css";

/** One of them is shown at a time. */
const FOCUS_NEXT = ".call-control.mute, an-queue-panel button, .start > .button.primary";

/**
 * A timer: counts up from `from` until `until`, or down to `deadline`. Times are
 * `performance.now()`.
 */
@customElement("an-timer")
export class TimerElement extends BaseElement {
  #timer = 0;

  @property({ attribute: false }) from: number | null = null;
  @property({ attribute: false }) until: number | null = null;
  @property({ attribute: false }) deadline: number | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = window.setInterval(() => this.requestUpdate(), 500);
  }

  override disconnectedCallback(): void {
    clearInterval(this.#timer);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    return html`<span role="timer" aria-live="off" translate="no">${formatClock(this.#seconds)}</span>`;
  }

  get #seconds(): number {
    const now = performance.now();
    if (this.deadline !== null) return Math.ceil((this.deadline - now) / 1000);
    return ((this.until ?? now) - (this.from ?? now)) / 1000;
  }
}

/** Notices during a call. */
function callNotices(view: CallView): TemplateResult | typeof nothing {
  const { sessionState, file } = view.state;
  if (sessionState.phase === "ended" || sessionState.phase === "idle") return nothing;
  const lost = sessionState.connection.state === "reconnecting";
  const ended = sessionState.sourceEnded;
  const problem = sessionState.phase === "active" && !ended ? view.state.inputProblem : null;
  return html`<div class="notices">
    ${lost ? html`<an-connection-banner .connection=${sessionState.connection} @retry=${view.actions.retry}></an-connection-banner>` : nothing}
    ${sessionState.phase === "paused" && sessionState.pauseDeadline !== null ? pauseEnds(sessionState.pauseDeadline) : nothing}
    ${sessionState.limit ? limitNear(sessionState.limit) : nothing} ${ended ? (file ? filePlayed(view) : noMicrophone(view)) : nothing} ${problem ? badInput(problem, view) : nothing}
  </div>`;
}

function badInput(problem: InputProblem, { actions }: CallView): TemplateResult {
  const t = callStrings();
  const [title, hint] = problem === "echo" ? [t.echo, t.echoHint] : [t.silent, t.silentHint];
  return html`<div class="callout caution" role="status">
    ${icon(problem === "echo" ? "speaker" : "mic")}
    <div class="grow">
      <p class="strong">${title}</p>
      <p class="soft">${hint}</p>
      ${settingsButton(actions)}
    </div>
  </div>`;
}

function noMicrophone({ actions }: CallView): TemplateResult {
  return microphoneLost(actions.useMicrophone, settingsButton(actions));
}

function settingsButton(actions: CallView["actions"]): TemplateResult {
  return html`<button class="button small" @click=${() => actions.show("settings")}>
    ${icon("settings")} ${callStrings().chooseDevices}
  </button>`;
}

function pauseEnds(deadline: number): TemplateResult {
  return html`<div class="callout">
    ${icon("clock")}
    <p>${callStrings().state.pausedLeft} <an-timer class="number" .deadline=${deadline}></an-timer></p>
  </div>`;
}

function limitNear({ of, deadline }: Limit): TemplateResult {
  const t = callStrings();
  return html`<div class="callout caution" role="status">
    ${icon("clock")}
    <p>
      ${of === "context" ? t.contextNear : t.durationNear}
      <an-timer class="number" .deadline=${deadline}></an-timer>
    </p>
  </div>`;
}

function filePlayed({ actions }: CallView): TemplateResult {
  const t = callStrings();
  return html`<div class="callout" role="status">
    ${icon("info")}
    <div class="grow">
      <p class="strong">${t.fileEnded}</p>
      <p class="soft">${t.fileEndedHint}</p>
      <button class="button small" @click=${actions.useMicrophone}>${icon("mic")} ${t.useMicrophone}</button>
    </div>
  </div>`;
}

/** The main area: status, video or orb, captions, notices and controls. It fills the window in a call. */
export function callStage(view: CallView): TemplateResult {
  const { sessionState } = view.state;
  const hasVideo = showsVideo(view) && !view.away;
  const overVideo = hasVideo && isBusy(view.state);
  const waits = sessionState.queue === null ? "" : "queued";
  return html`<section class="stage ${sessionState.phase} ${waits} ${hasVideo ? "has-video" : ""} ${overVideo ? "dark-scheme" : ""} ${view.faded ? "faded" : ""}" data-focus-next=${FOCUS_NEXT}>
    <div class="top">
      <div class="grow">${isBusy(view.state) ? head(view) : html`<an-service-badge></an-service-badge>`}</div>
      ${sessionState.phase === "idle" ? html`<an-kept-recordings></an-kept-recordings>` : nothing}
      <div class="tools">${displayButtons(view)} ${panelButtons(view)}</div>
    </div>
    ${callNotices(view)}
    <div class="middle">${view.away ? awayNote(view) : middle(view)}</div>
    <div class="bottom">${bottom(view)}</div>
    <p class="visually-hidden" role="status">${statusAnnouncement(view.state)}</p>
    <p class="visually-hidden" aria-live="polite">${view.values.captions === "off" ? "" : understood(sessionState)}</p>
  </section>`;
}

/** The main area of a call in the small window. */
export function smallStage(view: CallView): TemplateResult {
  const hasVideo = showsVideo(view);
  return html`<div class="call live">
    <section class="stage small ${view.state.sessionState.phase} ${hasVideo ? "has-video dark-scheme" : ""}">
      <div class="middle">${middle(view)}</div>
      <div class="bottom">${bottom(view)}</div>
    </section>
  </div>`;
}

function awayNote({ actions }: CallView): TemplateResult {
  const t = callStrings();
  return html`<div class="call-status"><p class="title">${t.away}</p></div>
    <button class="button" @click=${actions.pictureInPicture}>${t.comeBack}</button>`;
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
    ${sessionBadges(sessionState.phase, { recorded: state.recorded, simulated: sessionState.simulated })}`;
}

function middle(view: CallView): TemplateResult {
  const { sessionState } = view.state;
  if (sessionState.phase === "ended") return afterCall(view);
  if (sessionState.phase === "idle") return invitation(view);
  const camera = showsVideo(view);
  const { mode, title, hint } = callStatus(sessionState, view.state.pending, { camera });
  const orb = html`${camera ? videoPreview(view) : nothing}
    <an-call-orb .call=${view.call} .mode=${mode}></an-call-orb>`;
  if (sessionState.queue !== null) {
    return html`${orb}<an-queue-panel .status=${sessionState.queue} @leave=${view.actions.endCall}></an-queue-panel>`;
  }
  return html`${orb}
    <div class="call-status">
      <p class="title">${title}</p>
      <p class="soft">${hint}</p>
    </div>
    ${captions(sessionState.transcript, view.values.captions)}`;
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
    </div>
    ${openings(view)}`;
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
function captions(
  lines: readonly TranscriptLine[],
  size: CallValues["captions"],
): TemplateResult | typeof nothing {
  if (size === "off") return nothing;
  const last = [
    lines.findLast(({ role }) => role === "user"),
    lines.findLast(({ role }) => role === "model"),
  ].filter((line) => line !== undefined);
  return html`<div class="captions ${size}">${last.sort((a, b) => a.id - b.id).map(caption)}</div>`;
}

function caption(line: TranscriptLine): TemplateResult {
  const t = callStrings();
  const { role, cut, interim } = line;
  return html`<p class="caption ${role}" aria-hidden=${interim || nothing}>
    <span
      ><span class="visually-hidden">${role === "user" ? t.you : t.model}: </span>${words(line)}${
        cut ? html` <small>${t.interrupted}</small>` : nothing
      }</span
    >
  </p>`;
}

/**
 * The video that the model receives. The front camera is mirrored if the user wants this. `live`:
 * setting the same stream again would show nothing until its next frame.
 */
function videoPreview({ call, state, values }: CallView): TemplateResult {
  const label = callStrings().sentVideo;
  if (state.file?.hasVideo) {
    setAspectRatio(state.file.element);
    return html`<div class="video-preview">${state.file.element}</div>`;
  }
  const { stream, facesUser } = call.camera.state.value;
  return html`<div class="video-preview ${facesUser && values.mirror ? "mirrored" : ""}">
    <video
      autoplay
      playsinline
      .muted=${true}
      .srcObject=${live(stream)}
      aria-label=${label}
      @resize=${({ currentTarget }: Event) => setAspectRatio(currentTarget as HTMLVideoElement)}
    ></video>
  </div>`;
}

/** Sets the aspect ratio of the frame. It changes when a phone rotates. */
function setAspectRatio(video: HTMLVideoElement): void {
  if (video.videoHeight === 0) return; // no video any more
  video.style.setProperty("--ratio", String(video.videoWidth / video.videoHeight));
}
