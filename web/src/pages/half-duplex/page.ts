import "../../components/voice-orb.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, query, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import type { Levels } from "../../audio/audio-engine.ts";
import { sessionEndNotice } from "../../components/session-status.ts";
import type { VoiceOrb } from "../../components/voice-orb.ts";
import { common } from "../../i18n/common.ts";
import type { HalfDuplexTurnState } from "../../session/half-duplex-session.ts";
import { Instructions } from "../../session/instructions.ts";
import type { ConnectionStatus } from "../../session/session.ts";
import { capabilities, exampleQuestion, limitations } from "../../shell/capabilities.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { loudnessShare } from "../../ui/controls.ts";
import { dialog } from "../../ui/dialog.ts";
import { icon } from "../../ui/icon.ts";
import { sidePanel, sidePanelButton } from "../../ui/side-panel.ts";
import { halfDuplexPanel, halfDuplexSettings } from "./panel.ts";
import { SessionController } from "./session-controller.ts";
import { halfDuplexStage } from "./stage.ts";
import { halfDuplexStrings } from "./strings.ts";
import "./page.css";

/** The half-duplex page: stage, transcript, settings. */
@customElement("an-half-duplex-page")
export class HalfDuplexPage extends BaseElement {
  readonly #settings = new StoreController(this, halfDuplexSettings);
  readonly #able = new StoreController(this, capabilities);
  readonly #instructions = new Instructions("half_duplex_audio", halfDuplexSettings);
  readonly #controller = new SessionController(this, this.#instructions, (levels) =>
    this.#show(levels),
  );
  #scrolledFor = "";

  @state() private checking = false;
  @query("an-voice-orb") private readonly orb!: VoiceOrb;
  @query(".turns") private readonly turns!: HTMLElement;

  /** Scrolls to the newest text. */
  protected override updated(): void {
    const last = this.#controller.state?.turns.at(-1);
    const mark = `${last?.id} ${last?.reply.length} ${last?.done}`;
    if (mark !== this.#scrolledFor) this.turns.scrollTo({ top: this.turns.scrollHeight });
    this.#scrolledFor = mark;
  }

  protected override render(): TemplateResult {
    const t = halfDuplexStrings();
    const { state } = this.#controller;
    return html`<div class="page-head">
        <div>
          <h1>${t.title}</h1>
          <p>${limitations(this.#able.value) || t.lead}</p>
        </div>
        ${sidePanelButton(t.settings)}
      </div>
      <div class="split">
        <div class="stack conversation">
          ${halfDuplexStage(this.#controller, () => this.#check(true))}
          <an-connection-banner
            .connection=${troubled(state?.connection)}
            @retry=${this.#controller.retryNow}
            @again=${this.#controller.start}
          ></an-connection-banner>
          ${sessionEndNotice(state?.end ?? null)}
          <an-queue-panel .status=${state?.queue ?? null} @leave=${this.#controller.stop}></an-queue-panel>
          ${this.#turns()}
        </div>
        ${sidePanel({ label: t.settings, body: halfDuplexPanel(this.#instructions, this.#controller.running) })}
      </div>
      ${this.#checkDialog()}`;
  }

  #turns(): TemplateResult {
    const t = halfDuplexStrings();
    const turns = this.#controller.state?.turns ?? [];
    const spoken = this.#settings.value.spoken;
    return html`<section class="card flush turns" tabindex="0" aria-label=${t.turns}>
      ${
        turns.length === 0
          ? html`<div class="empty">
              ${icon("turns")}<strong>${t.noTurns}</strong>
              <p>${t.noTurnsHint(exampleQuestion(this.#able.value))}</p>
            </div>`
          : nothing
      }
      <ol role="list" aria-live=${spoken ? "off" : "polite"}>
        ${repeat(
          turns,
          ({ id }) => `${this.#controller.state?.sessionId} ${id}`,
          (turn) => this.#turn(turn),
        )}
      </ol>
      ${this.#recordingLink()}
    </section>`;
  }

  #turn(turn: HalfDuplexTurnState): TemplateResult {
    const { running, state } = this.#controller;
    const rests = state?.turnState === "listening" || state?.turnState === "settling";
    return html`<li>
      <an-half-duplex-turn
        .turn=${turn}
        .audioOf=${this.#controller.audioOf}
        ?silent=${running && !rests}
      ></an-half-duplex-turn>
    </li>`;
  }

  #recordingLink(): TemplateResult | typeof nothing {
    const state = this.#controller.state;
    const recorded = state?.phase === "ended" && state.recordingId && state.turns.length > 0;
    if (!recorded || !this.#settings.value.record) return nothing;
    return html`<p class="recording">
      <a class="button small" href="/s/${state.recordingId}">${icon("link")} ${halfDuplexStrings().recording}</a>
    </p>`;
  }

  #checkDialog(): TemplateResult {
    const { deviceCheck } = common();
    return dialog({
      open: this.checking,
      title: deviceCheck.title,
      body: html`<an-device-check></an-device-check>`,
      footer: html`<button class="button primary" @click=${() => this.#check(false)}>
        ${deviceCheck.done}
      </button>`,
      onClose: () => this.#check(false),
    });
  }

  async #check(open: boolean): Promise<void> {
    if (open) await import("../../components/device-check.ts");
    this.checking = open;
  }

  /** Updates the meter directly. Rendering the page ten times per second is too slow. */
  #show({ user, model }: Levels): void {
    this.orb.userLevel = loudnessShare(user.peak);
    this.orb.modelLevel = loudnessShare(model.peak);
  }
}

/** The stage shows the other states. */
function troubled(connection: ConnectionStatus | undefined): ConnectionStatus {
  return connection === undefined || connection.state === "connecting"
    ? { state: "none" }
    : connection;
}
