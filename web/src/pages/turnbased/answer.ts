import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { OUTPUT_RATE } from "../../audio/pcm.ts";
import { chimeInQueue } from "../../components/queue-chimes.ts";
import { common } from "../../i18n/common.ts";
import { duration, number } from "../../i18n/format.ts";
import type { Answer } from "../../session/chat-request.ts";
import type { Link } from "../../session/conversation-state.ts";
import { textArea } from "../../ui/controls.ts";
import { type Changed, Element } from "../../ui/element.ts";
import { icon } from "../../ui/icon.ts";
import { prose } from "../../ui/prose.ts";
import "../../components/queue-panel.ts";
import "../../components/session-banner.ts";
import "../../components/sound-player.ts";
import type { Remedy, Trouble } from "./remedies.ts";
import { copyButton, tool } from "./tools.ts";
import { words } from "./words.ts";

const NO_LINK: Link = { state: "none" };

/**
 * What the model says, as it comes; what it said, to be heard again, copied, changed; or why it did not.
 *
 * @fires stop - no more of it
 * @fires reconnect - the connection is lost: try now
 * @fires again - ask once more
 * @fires rewrite - string: other words
 * @fires remove - take it back
 * @fires remedy - a Remedy
 */
@customElement("an-answer")
export class AnswerElement extends Element {
  @property({ attribute: false }) answer!: Answer;
  @property({ attribute: false }) trouble: Trouble | null = null;
  /** Nothing was said after it. */
  @property({ type: Boolean }) last = false;
  /** Nothing can be changed while an answer is on its way. */
  @property({ type: Boolean }) busy = false;

  @state() private draft: string | null = null;

  protected override willUpdate(changed: Changed<this>): void {
    const before = changed.get("answer") as Answer | undefined;
    if (before?.id === this.answer.id) chimeInQueue(before.exchange, this.answer.exchange);
  }

  protected override render(): TemplateResult {
    const { exchange } = this.answer;
    const done = exchange.phase === "ended";
    return html`<h3 class="visually-hidden">${words().model}</h3>
      ${this.#connection()}
      <an-queue-panel .place=${exchange.place} @leave=${() => this.tell("stop", null)}></an-queue-panel>
      ${this.draft === null ? this.#words() : this.#editor(this.draft)}
      ${this.#trouble()} ${done && this.draft === null ? this.#below() : nothing}`;
  }

  /** Only where something is wrong: every answer has a connection of its own. */
  #connection(): TemplateResult {
    const { link } = this.answer.exchange;
    return html`<an-session-banner
      .link=${link.state === "reconnecting" ? link : NO_LINK}
      @retry=${() => this.tell("reconnect", null)}
    ></an-session-banner>`;
  }

  #words(): TemplateResult | typeof nothing {
    const { text, exchange } = this.answer;
    const done = exchange.phase === "ended";
    if (text !== "") return html`<div class="said" aria-busy=${!done}>${prose(text)}</div>`;
    if (!done) return exchange.phase === "queued" ? nothing : this.#waiting();
    return this.trouble ? nothing : html`<p class="soft">${words().nothing}</p>`;
  }

  #waiting(): TemplateResult {
    const { read } = this.answer.exchange;
    const say = words();
    const share = number(Math.round(read * 100));
    return html`<p class="row tight soft">
      <span class="dots" aria-hidden="true"><i></i><i></i><i></i></span>
      <span class="small">${read > 0 && read < 1 ? say.reading(`${share} %`) : say.thinking}</span>
    </p>`;
  }

  #editor(draft: string): TemplateResult {
    return html`<form
      class="stack tight"
      @submit=${(event: SubmitEvent) => {
        event.preventDefault();
        this.tell("rewrite", draft);
        this.draft = null;
      }}
    >
      ${textArea({
        label: words().editAnswer,
        value: draft,
        rows: 6,
        onInput: (text) => {
          this.draft = text;
        },
      })}
      <div class="row tight">
        <button class="button primary small">${words().save}</button>
        <button class="button quiet small" type="button" @click=${() => this.#edit(null)}>
          ${common().cancel}
        </button>
      </div>
    </form>`;
  }

  #trouble(): TemplateResult | typeof nothing {
    if (this.trouble === null) return nothing;
    const { title, remedy, remedies } = this.trouble;
    const say = words().remedies;
    return html`<div class="callout caution" role="alert">
      ${icon("alert")}
      <div class="grow stack tight">
        <p class="strong">${title}</p>
        <p class="soft">${remedy}</p>
        ${
          this.last
            ? html`<div class="row tight">
                ${remedies.map(
                  (name, n) => html`<button
                    class="button small ${n === 0 ? "primary" : ""}"
                    ?disabled=${this.busy}
                    @click=${() => this.tell<Remedy>("remedy", name)}
                  >
                    ${say[name]}
                  </button>`,
                )}
              </div>`
            : nothing
        }
      </div>
    </div>`;
  }

  #below(): TemplateResult {
    const { sound, text } = this.answer;
    const say = words();
    return html`${
      sound
        ? html`<an-sound-player
              .samples=${sound}
              .rate=${OUTPUT_RATE}
              label=${say.spokenAnswer}
            ></an-sound-player>`
        : nothing
    }
      <div class="row tight tools">
        <span class="row still">
          ${copyButton(text)}
          ${this.last ? tool("refresh", say.again, this.busy, () => this.tell("again", null)) : nothing}
          ${this.#recordingLink()}
          ${text ? tool("edit", say.edit, this.busy, () => this.#edit(text)) : nothing}
          ${tool("trash", say.remove, this.busy, () => this.tell("remove", null))}
        </span>
        ${this.#facts()}
      </div>`;
  }

  #facts(): TemplateResult {
    const { stopped, firstTextMs, inputTokens, generatedTokens } = this.answer.exchange;
    const say = words();
    const tokens = say.tokens(number(inputTokens), number(generatedTokens));
    return html`${stopped ? html`<span class="badge">${say.stopped}</span>` : nothing}
      ${
        firstTextMs === null
          ? nothing
          : html`<span class="tiny" title=${tokens}>${say.firstText(duration(firstTextMs))}</span>`
      }`;
  }

  #recordingLink(): TemplateResult | typeof nothing {
    const { recordingId } = this.answer.exchange;
    if (!this.answer.kept || !recordingId) return nothing;
    const label = words().recordingLink;
    return html`<a
      class="button quiet square small"
      href="/s/${recordingId}"
      target="_blank"
      aria-label=${label}
      title=${label}
    >
      ${icon("link")}
    </a>`;
  }

  #edit(draft: string | null): void {
    this.draft = draft;
  }
}
