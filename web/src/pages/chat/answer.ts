import { siteUrl } from "../../api/site.ts";
import "../../components/audio-player.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { devices } from "../../audio/audio-settings.ts";
import { chimeInQueue } from "../../audio/chimes.ts";
import { OUTPUT_RATE } from "../../audio/pcm.ts";
import type { Player } from "../../audio/player.ts";
import { Speaker } from "../../audio/speaker.ts";
import { nowPlaying } from "../../components/audio-playback.ts";
import { type ProblemText, sessionEndText } from "../../components/session-status.ts";
import { copyText } from "../../components/transcript-text.ts";
import { common } from "../../i18n/common.ts";
import { formatDuration, formatNumber } from "../../i18n/language.ts";
import type { Answer } from "../../session/chat-exchange.ts";
import type { ConnectionStatus, SessionEnd } from "../../session/session.ts";
import { Store } from "../../state/store.ts";
import { BaseElement, type ChangedProperties } from "../../ui/base-element.ts";
import { textArea } from "../../ui/controls.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { inactive } from "../../ui/inactive.ts";
import type { ChatChoices } from "./panel.ts";
import { chatStrings } from "./strings.ts";
import "./page.css";

/**
 * Markdown of a model, which may still grow. The parser loads with the first answer. The text is
 * shown as it is until then, or if the parser cannot be loaded.
 */
@customElement("an-markdown")
export class MarkdownText extends BaseElement {
  @property({ attribute: false }) text = "";

  @state() private parse: typeof import("../../ui/markdown-parser.ts").markdownBlocks | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    import("../../ui/markdown-parser.ts").then(
      ({ markdownBlocks }) => {
        this.parse = markdownBlocks;
      },
      () => undefined,
    );
  }

  protected override render(): TemplateResult {
    const body = this.parse?.(this.text) ?? html`<p>${this.text}</p>`;
    return html`<div class="prose">${body}</div>`;
  }
}

/** What the user can do after a failed answer. */
export type Remedy = keyof ReturnType<typeof chatStrings>["remedies"];

/** Returns the error and its remedies, best first. Null if there is no error. */
export interface AnswerProblem extends ProblemText {
  readonly remedies: readonly Remedy[];
}

export function answerProblemOf(answer: Answer, chosen: ChatChoices): AnswerProblem | null {
  const { end } = answer.exchange;
  const text = end && sessionEndText(end);
  if (!end || !text) return null;
  const t = chatStrings();
  const refusal = refusalOf(answer, end.field ?? "", chosen);
  if (refusal === null) return { ...text, remedies: waysOn(end, chosen) };
  const server = end.message.replace(/^[\w.]+: /, "").replace(/\.$/, "");
  return { ...refusal, remedy: t.saysServer(server) };
}

/** Some engines can write but not speak. */
function waysOn({ code }: SessionEnd, { spoken }: ChatChoices): Remedy[] {
  const mayBeSpeech = code === "inference_error" || code === "invalid_field";
  return mayBeSpeech && spoken ? ["again", "speech"] : ["again"];
}

/**
 * `messages.1.content.0`: the model does not support this kind. With `.data`: the data is broken
 * or too large.
 */
function refusalOf(
  { refused }: Answer,
  field: string,
  chosen: ChatChoices,
): Omit<AnswerProblem, "remedy"> | null {
  const { refusals } = chatStrings();
  if (refused !== null) {
    const broken = field.endsWith(".data") && refused.type !== "text";
    const title = broken ? refusals.broken(refused.name) : refusals[refused.type];
    const deaf = refused.type === "video" && !chosen.videoSound;
    return { title, remedies: [...(deaf ? ["videoSound" as const] : []), refused.type, "edit"] };
  }
  if (field === "enable_thinking") return { title: refusals.thinking, remedies: ["thinking"] };
  if (field.startsWith("tts")) return { title: refusals.speech, remedies: ["speech"] };
  return null;
}

/** A small button below a message. It keeps the focus while it is disabled. */
export function toolButton(
  name: IconName,
  label: string,
  disabled: boolean,
  run: () => void,
): TemplateResult {
  return html`<button
    class="button quiet square small"
    aria-label=${label}
    title=${label}
    ${inactive(disabled)}
    @click=${run}
  >
    ${icon(name)}
  </button>`;
}

/** Returns nothing if there is no text. */
export function copyButton(text: string): TemplateResult | typeof nothing {
  if (text === "") return nothing;
  return toolButton("copy", chatStrings().copy, false, () => copyText(text, chatStrings().copied));
}

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
  /** Whether it is the last message and its question can be asked again. */
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
    const isNew = draft.trim() !== "" && draft !== this.answer.text;
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
        <button class="button primary small" ${inactive(!isNew)}>${chatStrings().save}</button>
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
                    ${inactive(this.busy)}
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
      href=${siteUrl(`/s/${recordingId}`)}
      target="_blank"
      aria-label=${label}
      title=${label}
    >
      ${icon("link")}
    </a>`;
  }

  #edit(draft: string | null): void {
    this.draft = draft;
    void this.updateComplete.then(() => this.querySelector("textarea")?.focus());
  }
}

/** Speaks answers while they arrive. */
export class AnswerSpeaker {
  /** Whether audio is playing. */
  readonly speaks = new Store(false);
  #speaker: Speaker | null = null;
  #speakerId = "";

  /** `onInterrupt`: other audio plays. Only one voice plays at a time. */
  constructor(onInterrupt: () => void) {
    nowPlaying.subscribe((playback) => {
      if (playback === null) return;
      this.stopSpeech();
      onInterrupt();
    });
  }

  /** Call it in a user gesture. Rejects if there is no audio output. */
  async player(): Promise<Player> {
    this.#speaker ??= await this.#open();
    const id = devices.value.speaker ?? "";
    if (id !== this.#speakerId) await this.#select(this.#speaker, id);
    await this.#speaker.resume();
    return this.#speaker.player;
  }

  stopSpeech(): void {
    this.#speaker?.player.flush();
    this.speaks.set(false);
  }

  close(): void {
    void this.#speaker?.close();
    this.#speaker = null;
    this.#speakerId = "";
  }

  async #select(speaker: Speaker, id: string): Promise<void> {
    try {
      await speaker.setSpeaker(id);
      this.#speakerId = id;
    } catch {
      // the audio plays where it played before
    }
  }

  async #open(): Promise<Speaker> {
    const speaker = await Speaker.open({ loopback: false });
    speaker.player.on("start", () => this.speaks.set(true));
    speaker.player.on("idle", () => this.speaks.set(false));
    speaker.player.on("flush", () => this.speaks.set(false));
    return speaker;
  }
}
