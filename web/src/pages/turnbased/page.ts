import { html, nothing, type TemplateResult } from "lit";
import { customElement, query } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { socketProtocols } from "../../api/key.ts";
import { allowChimes } from "../../components/chimes.ts";
import { hushSounds } from "../../components/playback.ts";
import { type Part, textPart } from "../../media/parts.ts";
import { ChatLog, type ChatSetup } from "../../session/chat-log.ts";
import type { Answer, Question, Said } from "../../session/chat-request.ts";
import { Instructions } from "../../session/instructions.ts";
import { tellProblem } from "../../shell/problem.ts";
import { Watch } from "../../state/store.ts";
import { Element } from "../../ui/element.ts";
import { icon } from "../../ui/icon.ts";
import { sidePanel, sidePanelButton } from "../../ui/side-panel.ts";
import { toast } from "../../ui/toasts.ts";
import "./answer.ts";
import { ChatVoice } from "./chat-voice.ts";
import type { Composer } from "./composer.ts";
import { DropZone } from "./drop-zone.ts";
import { panel } from "./panel.ts";
import type { QuestionElement } from "./question.ts";
import { type Remedy, troubleOf } from "./remedies.ts";
import { requestWith, settings } from "./settings.ts";
import { Tail } from "./tail.ts";
import { welcome } from "./welcome.ts";
import { words } from "./words.ts";
import "./page.css";
import "./question.ts";

/** A conversation in writing, with pictures, sounds and videos, and answers that are read and heard. */
@customElement("an-turnbased-page")
export class TurnbasedPage extends Element {
  readonly #settings = new Watch(this, settings);
  readonly #instructions = new Instructions("turnbased", settings);
  readonly #voice = new ChatVoice();
  readonly #speaks = new Watch(this, this.#voice.speaks);
  readonly #log = new ChatLog((said) => this.#setup(said));
  readonly #said = new Watch(this, this.#log.state);
  readonly #tail = new Tail(this);
  readonly #drop = new DropZone(this, (files) => void this.composer.add(files));

  @query("an-composer.main") private readonly composer!: Composer;

  override connectedCallback(): void {
    super.connectedCallback();
    window.addEventListener("pagehide", this.#leave);
  }

  override disconnectedCallback(): void {
    window.removeEventListener("pagehide", this.#leave);
    this.#leave();
    this.#voice.close();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const say = words();
    const { said } = this.#said.value;
    return html`<div class="page-head">
        <div>
          <h1>${say.title}</h1>
          <p>${say.lead}</p>
        </div>
        <div class="row tight still">${this.#clearButton()} ${sidePanelButton(say.settings)}</div>
      </div>
      <div class="split">
        <section class="chat" aria-label=${say.log}>
          ${said.length === 0 ? welcome((text) => this.#ask([textPart(text)])) : this.#conversation(said)}
          <p class="visually-hidden" role="status">${this.#announcement()}</p>
          ${this.#foot()}
        </section>
        ${sidePanel({ label: say.settings, body: panel(this.#instructions) })}
      </div>
      ${this.#drop.over ? html`<div class="drop">${icon("attach")} ${say.drop}</div>` : nothing}`;
  }

  #conversation(said: readonly Said[]): TemplateResult {
    return html`<ol role="list" class="said-list">
      ${repeat(
        said,
        ({ id }) => id,
        (one, place) =>
          html`<li>
            ${one.role === "user" ? this.#question(one) : this.#answer(one, place === said.length - 1)}
          </li>`,
      )}
    </ol>`;
  }

  #question(question: Question): TemplateResult {
    return html`<an-question
      .question=${question}
      .leftOut=${this.#said.value.leftOut}
      ?busy=${this.#log.busy}
      @edit=${({ detail }: CustomEvent<Part[]>) => this.#tried(this.#log.edit(question.id, detail))}
      @remove=${() => this.#remove(question)}
      @stop=${this.#stop}
    ></an-question>`;
  }

  #answer(answer: Answer, last: boolean): TemplateResult {
    return html`<an-answer
      .answer=${answer}
      .trouble=${troubleOf(answer, this.#settings.value)}
      ?last=${last}
      ?busy=${this.#log.busy}
      @stop=${this.#stop}
      @reconnect=${() => this.#log.retryNow()}
      @again=${() => this.#tried(this.#log.again())}
      @rewrite=${({ detail }: CustomEvent<string>) => this.#log.rewrite(answer.id, detail)}
      @remove=${() => this.#remove(answer)}
      @remedy=${({ detail }: CustomEvent<Remedy>) => this.#mend(answer, detail)}
    ></an-answer>`;
  }

  #foot(): TemplateResult {
    const say = words();
    return html`<div class="foot">
      ${
        this.#tail.away && this.#said.value.said.length > 0
          ? html`<button
              class="button square latest"
              aria-label=${say.latest}
              title=${say.latest}
              @click=${() => this.#tail.show()}
            >
              ${icon("chevron")}
            </button>`
          : nothing
      }
      <an-composer
        class="main"
        ?busy=${this.#log.busy}
        .tools=${this.#speechButton()}
        @send=${({ detail }: CustomEvent<Part[]>) => this.#ask(detail)}
        @stop=${this.#stop}
      ></an-composer>
    </div>`;
  }

  /** One place for both: what speaks can be hushed, else it is whether the next answer will. */
  #speechButton(): TemplateResult {
    const say = words();
    const { spoken } = this.#settings.value;
    const hush = this.#speaks.value && !this.#log.busy;
    const label = hush ? say.hush : spoken ? say.quiet : say.speak;
    return html`<button
      class="button quiet square ${hush ? "sounding" : ""}"
      type="button"
      aria-label=${label}
      title=${label}
      @click=${() => (hush ? this.#voice.hush() : this.#toggleSpoken())}
    >
      ${icon(spoken ? "speaker" : "speakerOff")}
    </button>`;
  }

  #clearButton(): TemplateResult | typeof nothing {
    if (this.#said.value.said.length === 0) return nothing;
    return html`<button class="button clear" @click=${this.#clear}>
      ${icon("plus")} <span>${words().clear}</span>
    </button>`;
  }

  /** Whole answers only; what is spoken need not be read out too. */
  #announcement(): string {
    const last = this.#said.value.said.at(-1);
    if (last?.role !== "assistant") return "";
    if (last.exchange.phase !== "ended") return last.text ? words().writing : words().thinking;
    return last.sound ? words().complete : last.text;
  }

  async #setup(said: readonly Said[]): Promise<ChatSetup> {
    const chosen = settings.value;
    const player = chosen.spoken ? await this.#voice.player() : undefined;
    return {
      system: this.#instructions.told,
      request: requestWith(chosen, this.#instructions, said),
      exchange: { player, connection: { protocols: socketProtocols() } },
    };
  }

  #ask(parts: readonly Part[]): void {
    this.#tried(
      this.#log.ask(parts).then(() => {
        this.composer.clear();
        this.composer.focus();
      }),
    );
  }

  /** In a click: sound is allowed from then on. */
  #tried(work: Promise<void>): void {
    allowChimes();
    hushSounds();
    this.#tail.show();
    work.catch((error: unknown) => tellProblem(error));
  }

  readonly #stop = (): void => {
    this.#log.stop();
    this.#voice.hush();
  };

  readonly #leave = (): void => this.#log.stop();

  readonly #clear = (): void => {
    if (!confirm(words().clearAsk)) return;
    this.#voice.hush();
    hushSounds();
    this.#log.clear();
    this.composer.focus();
  };

  #toggleSpoken(): void {
    settings.update({ spoken: !settings.value.spoken });
    if (!settings.value.spoken) this.#voice.hush();
  }

  #remove({ id }: Said): void {
    const undo = this.#log.remove(id);
    toast({ tone: "info", title: words().removed, action: { label: words().undo, run: undo } });
  }

  #mend({ refused }: Answer, remedy: Remedy): void {
    if (remedy === "edit") {
      this.#editLast();
      return;
    }
    if (remedy === "thinking") settings.update({ thinking: false });
    else if (remedy === "speech") settings.update({ spoken: false });
    else if (remedy === "videoSound") settings.update({ videoSound: true });
    else if (remedy === "image" || remedy === "video")
      this.#log.leaveOut(this.#log.partsOf(remedy));
    else if (refused) this.#log.leaveOut([refused]);
    this.#tried(this.#log.again());
  }

  #editLast(): void {
    const questions = this.querySelectorAll<QuestionElement>("an-question");
    questions[questions.length - 1]?.edit();
  }
}
