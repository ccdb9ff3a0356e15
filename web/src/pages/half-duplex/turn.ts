import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { INPUT_RATE, OUTPUT_RATE, type Samples } from "../../audio/pcm.ts";
import { formatDuration } from "../../i18n/format.ts";
import type { HalfDuplexTurnState } from "../../session/half-duplex-state.ts";
import type { TurnAudio } from "../../session/turn-audio.ts";
import { BaseElement, type ChangedProperties } from "../../ui/base-element.ts";
import { icon } from "../../ui/icon.ts";
import { toast } from "../../ui/toasts.ts";
import "../../components/audio-player.ts";
import { halfDuplexStrings } from "./strings.ts";

/** A turn with the text and audio of both sides. */
@customElement("an-half-duplex-turn")
export class HalfDuplexTurn extends BaseElement {
  #sound: TurnAudio | undefined;

  @property({ attribute: false }) turn!: HalfDuplexTurnState;
  @property({ attribute: false }) audioOf!: (turn: HalfDuplexTurnState) => TurnAudio;
  /** Playback is disabled. */
  @property({ type: Boolean }) silent = false;

  protected override willUpdate(changed: ChangedProperties<this>): void {
    const before = changed.get("turn") as HalfDuplexTurnState | undefined;
    const grew = before === undefined || before.done !== this.turn.done;
    if (changed.has("turn") && grew) this.#sound = this.audioOf(this.turn);
  }

  protected override render(): TemplateResult {
    const t = halfDuplexStrings();
    const { id, speechMs, heard } = this.turn;
    return html`<div class="message user">
        <p class="tiny strong">${t.spoke(formatDuration(speechMs))}</p>
        ${heard === "" ? nothing : html`<p class="heard">${heard}</p>`}
        ${this.#player(this.#sound?.user, INPUT_RATE, t.yourSpeech(id + 1))}
      </div>
      <div class="message model">
        ${this.#reply()} ${this.turn.done ? this.#below() : nothing}
      </div>`;
  }

  #reply(): TemplateResult {
    const { reply, done, cut } = this.turn;
    if (reply === "" && !done)
      return html`<p class="dots" aria-hidden="true"><i></i><i></i><i></i></p>`;
    if (reply === "") return html`<p class="soft">${halfDuplexStrings().empty}</p>`;
    return html`<p aria-busy=${!done}>
      <span class="reply">${reply.trim()}</span>
      ${cut ? html`<span class="badge">${halfDuplexStrings().cut}</span>` : nothing}
    </p>`;
  }

  #below(): TemplateResult {
    const t = halfDuplexStrings();
    const { id, firstAudioMs, reply } = this.turn;
    return html`<div class="row tight reply-info">
      ${this.#player(this.#sound?.model, OUTPUT_RATE, t.reply(id + 1))}
      <span class="row tight still">
        ${
          firstAudioMs === null
            ? nothing
            : html`<span class="tiny soft">${t.firstAudio(formatDuration(firstAudioMs))}</span>`
        }
        <button
          class="button quiet square small"
          aria-label=${t.copy}
          ?hidden=${reply === ""}
          @click=${this.#copy}
        >
          ${icon("copy")}
        </button>
      </span>
    </div>`;
  }

  #player(
    samples: Samples | undefined,
    rate: number,
    label: string,
  ): TemplateResult | typeof nothing {
    if (!samples?.length) return nothing;
    return html`<an-audio-player
      .samples=${samples}
      .rate=${rate}
      label=${label}
      ?disabled=${this.silent}
    ></an-audio-player>`;
  }

  async #copy(): Promise<void> {
    await navigator.clipboard.writeText(this.turn.reply.trim());
    toast({ tone: "good", title: halfDuplexStrings().copied });
  }
}
