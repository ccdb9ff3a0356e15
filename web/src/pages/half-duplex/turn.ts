import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import { INPUT_RATE, OUTPUT_RATE, type Samples } from "../../audio/pcm.ts";
import { duration } from "../../i18n/format.ts";
import type { Turn } from "../../session/half-duplex-state.ts";
import type { TurnSound } from "../../session/turn-sounds.ts";
import { type Changed, Element } from "../../ui/element.ts";
import { icon } from "../../ui/icon.ts";
import { toast } from "../../ui/toasts.ts";
import "../../components/sound-player.ts";
import { words } from "./words.ts";

/** What both said in one turn, to be read and heard again. */
@customElement("an-half-duplex-turn")
export class HalfDuplexTurn extends Element {
  #sound: TurnSound | undefined;

  @property({ attribute: false }) turn!: Turn;
  @property({ attribute: false }) soundOf!: (turn: Turn) => TurnSound;
  /** Nothing can be listened to now. */
  @property({ type: Boolean }) silent = false;

  protected override willUpdate(changed: Changed<this>): void {
    const before = changed.get("turn") as Turn | undefined;
    const grew = before === undefined || before.done !== this.turn.done;
    if (changed.has("turn") && grew) this.#sound = this.soundOf(this.turn);
  }

  protected override render(): TemplateResult {
    const say = words();
    const { id, speechMs } = this.turn;
    return html`<div class="said you">
        <p class="tiny strong">${say.spoke(duration(speechMs))}</p>
        ${this.#player(this.#sound?.user, INPUT_RATE, say.yourSpeech(id + 1))}
      </div>
      <div class="said they">
        ${this.#reply()} ${this.turn.done ? this.#below() : nothing}
      </div>`;
  }

  #reply(): TemplateResult {
    const { reply, done, cut } = this.turn;
    if (reply === "" && !done)
      return html`<p class="dots" aria-hidden="true"><i></i><i></i><i></i></p>`;
    if (reply === "") return html`<p class="soft">${words().empty}</p>`;
    return html`<p aria-busy=${!done}>
      <span class="words">${reply.trim()}</span>
      ${cut ? html`<span class="badge">${words().cut}</span>` : nothing}
    </p>`;
  }

  #below(): TemplateResult {
    const say = words();
    const { id, firstSoundMs, reply } = this.turn;
    return html`<div class="row tight below">
      ${this.#player(this.#sound?.model, OUTPUT_RATE, say.reply(id + 1))}
      <span class="row tight still">
        ${
          firstSoundMs === null
            ? nothing
            : html`<span class="tiny soft">${say.firstSound(duration(firstSoundMs))}</span>`
        }
        <button
          class="button quiet square small"
          aria-label=${say.copy}
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
    return html`<an-sound-player
      .samples=${samples}
      .rate=${rate}
      label=${label}
      ?disabled=${this.silent}
    ></an-sound-player>`;
  }

  async #copy(): Promise<void> {
    await navigator.clipboard.writeText(this.turn.reply.trim());
    toast({ tone: "good", title: words().copied });
  }
}
