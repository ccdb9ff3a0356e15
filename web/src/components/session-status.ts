import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { enterKey } from "../api/http.ts";
import { devices } from "../audio/audio-settings.ts";
import { allowChimes, chime } from "../audio/chimes.ts";
import { common } from "../i18n/common.ts";
import { formatClock } from "../i18n/language.ts";
import type {
  ConnectionStatus,
  Phase,
  Problem,
  QueueStatus,
  SessionEnd,
} from "../session/session.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { toggle } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";
import { deviceErrorText } from "./device-select.ts";
import "./components.css";

/**
 * Position in the queue and estimated wait, or why it is unknown. Empty without a status. The switch controls
 * `chimeInQueue`, which needs `allowChimes` in the click that starts the session.
 *
 * @fires leave - the user leaves the queue
 */
@customElement("an-queue-panel")
export class QueuePanel extends BaseElement {
  readonly #devices = new StoreController(this, devices);
  #timer = 0;

  @property({ attribute: false }) status: QueueStatus | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = window.setInterval(() => this.status && this.requestUpdate(), 500);
  }

  override disconnectedCallback(): void {
    clearInterval(this.#timer);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult | typeof nothing {
    const { status } = this;
    if (status === null) return nothing;
    const { queue } = common();
    return html`<section class="card" aria-live="polite" aria-label=${queue.title}>
      <p class="place number" aria-hidden="true">${status.position}</p>
      <div class="stack tight grow">
        <h2>${heading(status)}</h2>
        <p class="soft">
          ${queue.position(status.position, status.length)}<span aria-hidden="true">${timeLeft(status)}</span>
        </p>
        <p class="small soft">${queue.wait}</p>
        <div class="row apart">
          ${toggle({ label: queue.chimes, checked: this.#devices.value.chimes, onChange: setChimes })}
          <button class="button" @click=${() => this.emit("leave", null)}>
            ${icon("close")} ${queue.leave}
          </button>
        </div>
      </div>
    </section>`;
  }
}

function setChimes(on: boolean): void {
  devices.update({ chimes: on });
  if (!on) return;
  allowChimes();
  chime("closer");
}

function heading({ etaS, position, reason }: QueueStatus): string {
  const { queue } = common();
  if (etaS !== null) return position === 1 ? queue.next : queue.title;
  const reasons: Readonly<Record<string, string>> = queue.reasons;
  return reasons[reason ?? ""] ?? queue.reasons.no_worker;
}

function timeLeft({ etaS, at, stale }: QueueStatus): string {
  const { queue } = common();
  if (stale) return ` · ${queue.stale}`;
  if (etaS === null) return "";
  const left = etaS - (performance.now() - at) / 1000;
  return ` · ${left < 1 ? queue.soon : queue.eta(formatClock(left))}`;
}

/**
 * Shows a lost or reconnecting connection and what the user can do.
 *
 * @fires retry - reconnect now, without waiting for the next attempt
 * @fires again - start a new session
 */
@customElement("an-connection-banner")
export class ConnectionBanner extends BaseElement {
  #timer = 0;

  @property({ attribute: false }) connection: ConnectionStatus = { state: "none" };

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = window.setInterval(
      () => this.connection.state === "reconnecting" && this.requestUpdate(),
      500,
    );
  }

  override disconnectedCallback(): void {
    clearInterval(this.#timer);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    return html`<div role="status">${this.#content()}</div>`;
  }

  #content(): TemplateResult | typeof nothing {
    const { session } = common();
    switch (this.connection.state) {
      case "none":
      case "open":
        return nothing;
      case "connecting":
        return html`<div class="callout"><span class="spinner"></span>${session.connecting}</div>`;
      case "reconnecting":
        return this.#reconnecting(this.connection.deadline);
      case "lost":
        return this.#lost();
    }
  }

  #reconnecting(deadline: number): TemplateResult {
    const { session } = common();
    const left = Math.max(0, Math.ceil((deadline - performance.now()) / 1000));
    return html`<div class="callout caution">
      <span class="spinner"></span>
      <div class="grow">
        <p class="strong">${session.reconnecting}</p>
        <p class="soft" aria-live="off">${session.reconnectingHint(left)}</p>
      </div>
      <button class="button small" @click=${() => this.emit("retry", null)}>${session.retryNow}</button>
    </div>`;
  }

  #lost(): TemplateResult {
    const { session, sessionErrors } = common();
    return html`<div class="callout danger">
      ${icon("wifiOff")}
      <div class="grow">
        <p class="strong">${sessionErrors.lost.title}</p>
        <p class="soft">${sessionErrors.lost.remedy}</p>
      </div>
      <button class="button small" @click=${() => this.emit("again", null)}>${session.again}</button>
    </div>`;
  }
}

/** Whether the server records the session that runs, and whether its engine is simulated. */
export function sessionBadges(
  phase: Phase,
  { recorded, simulated }: { readonly recorded: boolean; readonly simulated: boolean },
): TemplateResult {
  const { session, capabilities } = common();
  const [text, hint] = recorded
    ? [session.recorded, session.recordedHint]
    : [session.notRecorded, session.notRecordedHint];
  return html`<div class="row tight">
    ${
      phase === "active" || phase === "paused"
        ? html`<span class="badge ${recorded ? "danger dot" : ""}" title=${hint}>${text}</span>`
        : nothing
    }
    ${
      simulated
        ? html`<span class="badge caution" title=${capabilities.simulated}>${session.simulated}</span>`
        : nothing
    }
  </div>`;
}

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
      ${keyButton(end)}
    </div>
  </div>`;
}

/** Asks for the key if the session needs one. */
export function keyButton(end: SessionEnd | null): TemplateResult | typeof nothing {
  if (end?.code !== "unauthorized") return nothing;
  return html`<button class="button small" @click=${() => void enterKey()}>
    ${icon("key")} ${common().key.enter}
  </button>`;
}
