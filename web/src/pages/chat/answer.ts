import "../../ui/markdown.ts";
import "../../components/session-status.ts";
import "../../components/audio-player.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { chimeInQueue } from "../../audio/chimes.ts";
import { OUTPUT_RATE } from "../../audio/pcm.ts";
import { common } from "../../i18n/common.ts";
import { formatDuration, formatNumber } from "../../i18n/format.ts";
import type { Answer } from "../../session/chat-exchange.ts";
import type { ConnectionStatus } from "../../session/session.ts";
import { BaseElement, type ChangedProperties } from "../../ui/base-element.ts";
import { textArea } from "../../ui/controls.ts";
import { icon } from "../../ui/icon.ts";
import type { AnswerProblem, Remedy } from "./answer-errors.ts";
import { copyButton, toolButton } from "./message-buttons.ts";
import { chatStrings } from "./strings.ts";

const NO_LINK: ConnectionStatus = { state: "none" };

/**
 * An answer of the model, or the error instead of it. The user can play, copy, edit and delete it.
 *
 * @fires stop - stop the answer
 * @fires reconnect - reconnect now
 * @fires again - ask again
 * @fires rewrite - string: the new text
 * @fires remove - delete the answer
 * @fires remedy - a Remedy
 */
@customElement("an-answer")
export class AnswerElement extends BaseElement {
  @property({ attribute: false }) answer!: Answer;
  @property({ attribute: false }) problem: AnswerProblem | null = null;
  /** Whether it is the last message. */
  @property({ type: Boolean }) last = false;
  /** Disabled while an answer is generated. */
  @property({ type: Boolean }) busy = false;

  @state() private draft: string | null = null;

  protected override willUpdate(changed: ChangedProperties<this>): void {
    const before = changed.get("answer") as Answer | undefined;
    if (before?.id === this.answer.id) chimeInQueue(before.exchange, this.answer.exchange);
  }

  protected override render(): TemplateResult {
    const { exchange } = this.answer;
    const done = exchange.phase === "ended";
    return html`<h3 class="visually-hidden">${chatStrings().model}</h3>
      ${this.#connection()}
      <an-queue-panel .status=${exchange.queue} @leave=${() => this.emit("stop", null)}></an-queue-panel>
      ${this.draft === null ? this.#chatStrings() : this.#editor(this.draft)}
      ${this.#problem()} ${done && this.draft === null ? this.#below() : nothing}`;
  }

  /** Only if there is a problem: every answer has its own connection. */
  #connection(): TemplateResult {
    const { connection } = this.answer.exchange;
    return html`<an-connection-banner
      .connection=${connection.state === "reconnecting" ? connection : NO_LINK}
      @retry=${() => this.emit("reconnect", null)}
    ></an-connection-banner>`;
  }

  #chatStrings(): TemplateResult | typeof nothing {
    const { text, exchange } = this.answer;
    const done = exchange.phase === "ended";
    if (text !== "") {
      return html`<div class="message-content" aria-busy=${!done}><an-markdown .text=${text}></an-markdown></div>`;
    }
    if (!done) return exchange.queue !== null ? nothing : this.#waiting();
    return this.problem ? nothing : html`<p class="soft">${chatStrings().nothing}</p>`;
  }

  #waiting(): TemplateResult {
    const { read } = this.answer.exchange;
    const t = chatStrings();
    const share = formatNumber(Math.round(read * 100));
    return html`<p class="row tight soft">
      <span class="dots" aria-hidden="true"><i></i><i></i><i></i></span>
      <span class="small">${read > 0 && read < 1 ? t.reading(`${share} %`) : t.thinking}</span>
    </p>`;
  }

  #editor(draft: string): TemplateResult {
    return html`<form
      class="stack tight"
      @submit=${(event: SubmitEvent) => {
        event.preventDefault();
        this.emit("rewrite", draft);
        this.draft = null;
      }}
    >
      ${textArea({
        label: chatStrings().editAnswer,
        value: draft,
        rows: 6,
        onInput: (text) => {
          this.draft = text;
        },
      })}
      <div class="row tight">
        <button class="button primary small">${chatStrings().save}</button>
        <button class="button quiet small" type="button" @click=${() => this.#edit(null)}>
          ${common().cancel}
        </button>
      </div>
    </form>`;
  }

  #problem(): TemplateResult | typeof nothing {
    if (this.problem === null) return nothing;
    const { title, remedy, remedies } = this.problem;
    const t = chatStrings().remedies;
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
                    @click=${() => this.emit<Remedy>("remedy", name)}
                  >
                    ${t[name]}
                  </button>`,
                )}
              </div>`
            : nothing
        }
      </div>
    </div>`;
  }

  #below(): TemplateResult {
    const { audio, text } = this.answer;
    const t = chatStrings();
    return html`${
      audio
        ? html`<an-audio-player
              .samples=${audio}
              .rate=${OUTPUT_RATE}
              label=${t.spokenAnswer}
            ></an-audio-player>`
        : nothing
    }
      <div class="row tight tools">
        <span class="row still">
          ${copyButton(text)}
          ${this.last ? toolButton("refresh", t.again, this.busy, () => this.emit("again", null)) : nothing}
          ${this.#recordingLink()}
          ${text ? toolButton("edit", t.edit, this.busy, () => this.#edit(text)) : nothing}
          ${toolButton("trash", t.remove, this.busy, () => this.emit("remove", null))}
        </span>
        ${this.#facts()}
      </div>`;
  }

  #facts(): TemplateResult {
    const { stopped, firstTextMs, inputTokens, generatedTokens } = this.answer.exchange;
    const t = chatStrings();
    const tokens = t.tokens(formatNumber(inputTokens), formatNumber(generatedTokens));
    return html`${stopped ? html`<span class="badge">${t.stopped}</span>` : nothing}
      ${
        firstTextMs === null
          ? nothing
          : html`<span class="tiny" title=${tokens}>${t.firstText(formatDuration(firstTextMs))}</span>`
      }`;
  }

  #recordingLink(): TemplateResult | typeof nothing {
    const { recordingId } = this.answer.exchange;
    if (!this.answer.recordAllowed || !recordingId) return nothing;
    const label = chatStrings().recordingLink;
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
