import { html, nothing, type TemplateResult } from "lit";
import { customElement, query, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import type { Levels } from "../../audio/audio-desk.ts";
import { endingNotice } from "../../components/ending-notice.ts";
import { loudnessShare } from "../../components/orb-shape.ts";
import type { VoiceOrb } from "../../components/voice-orb.ts";
import { common } from "../../i18n/common.ts";
import type { Link } from "../../session/conversation-state.ts";
import type { Turn } from "../../session/half-duplex-state.ts";
import { Instructions } from "../../session/instructions.ts";
import { Watch } from "../../state/store.ts";
import { dialog } from "../../ui/dialog.ts";
import { Element } from "../../ui/element.ts";
import { icon } from "../../ui/icon.ts";
import { sidePanel, sidePanelButton } from "../../ui/side-panel.ts";
import { Call } from "./call.ts";
import { panel } from "./panel.ts";
import { settings } from "./settings.ts";
import { stage } from "./stage.ts";
import { words } from "./words.ts";
import "../../components/queue-panel.ts";
import "../../components/session-banner.ts";
import "../../components/voice-orb.ts";
import "./turn.ts";
import "./page.css";

/** A conversation by turns: stage, what was said, settings. */
@customElement("an-half-duplex-page")
export class HalfDuplexPage extends Element {
  readonly #settings = new Watch(this, settings);
  readonly #instructions = new Instructions("half_duplex_audio", settings);
  readonly #call = new Call(this, this.#instructions, (levels) => this.#show(levels));
  #scrolledFor = "";

  @state() private checking = false;
  @query("an-voice-orb") private readonly orb!: VoiceOrb;
  @query(".turns") private readonly turns!: HTMLElement;

  /** The newest words stay in sight. */
  protected override updated(): void {
    const last = this.#call.state?.turns.at(-1);
    const mark = `${last?.id} ${last?.reply.length} ${last?.done}`;
    if (mark !== this.#scrolledFor) this.turns.scrollTo({ top: this.turns.scrollHeight });
    this.#scrolledFor = mark;
  }

  protected override render(): TemplateResult {
    const say = words();
    const { state } = this.#call;
    return html`<div class="page-head">
        <div>
          <h1>${say.title}</h1>
          <p>${say.lead}</p>
        </div>
        ${sidePanelButton(say.settings)}
      </div>
      <div class="split">
        <div class="stack talk">
          <an-session-banner
            .link=${troubled(state?.link)}
            @retry=${this.#call.retryNow}
            @again=${this.#call.start}
          ></an-session-banner>
          ${endingNotice(state?.ending ?? null)}
          <an-queue-panel .place=${state?.place ?? null} @leave=${this.#call.stop}></an-queue-panel>
          ${stage(this.#call, () => this.#check(true))} ${this.#turns()}
        </div>
        ${sidePanel({ label: say.settings, body: panel(this.#instructions, this.#call.running) })}
      </div>
      ${this.#checkDialog()}`;
  }

  #turns(): TemplateResult {
    const say = words();
    const turns = this.#call.state?.turns ?? [];
    const spoken = this.#settings.value.spoken;
    return html`<section class="card flush turns" tabindex="0" aria-label=${say.turns}>
      ${
        turns.length === 0
          ? html`<div class="empty">
              ${icon("turns")}<strong>${say.noTurns}</strong>
              <p>${say.noTurnsHint}</p>
            </div>`
          : nothing
      }
      <ol role="list" aria-live=${spoken ? "off" : "polite"}>
        ${repeat(
          turns,
          ({ id }) => `${this.#call.state?.sessionId} ${id}`,
          (turn) => this.#turn(turn),
        )}
      </ol>
      ${this.#recordingLink()}
    </section>`;
  }

  #turn(turn: Turn): TemplateResult {
    const { running, state } = this.#call;
    const rests = state?.floor === "listening" || state?.floor === "settling";
    return html`<li>
      <an-half-duplex-turn
        .turn=${turn}
        .soundOf=${this.#call.soundOf}
        ?silent=${running && !rests}
      ></an-half-duplex-turn>
    </li>`;
  }

  #recordingLink(): TemplateResult | typeof nothing {
    const state = this.#call.state;
    const kept = state?.phase === "ended" && state.recordingId && state.turns.length > 0;
    if (!kept || !this.#settings.value.record) return nothing;
    return html`<p class="recording">
      <a class="button small" href="/s/${state.recordingId}">${icon("link")} ${words().recording}</a>
    </p>`;
  }

  #checkDialog(): TemplateResult {
    const { preflight } = common();
    return dialog({
      open: this.checking,
      title: preflight.title,
      body: html`<an-preflight></an-preflight>`,
      footer: html`<button class="button primary" @click=${() => this.#check(false)}>
        ${preflight.done}
      </button>`,
      onClose: () => this.#check(false),
    });
  }

  async #check(open: boolean): Promise<void> {
    if (open) await import("../../components/preflight.ts");
    this.checking = open;
  }

  /** Straight into the picture: ten times a second is too often for the whole page. */
  #show({ user, model }: Levels): void {
    this.orb.you = loudnessShare(user.peak);
    this.orb.they = loudnessShare(model.peak);
  }
}

/** That it connects, the stage says. */
function troubled(link: Link | undefined): Link {
  return link === undefined || link.state === "connecting" ? { state: "none" } : link;
}
