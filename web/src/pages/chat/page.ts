import type { Capabilities } from "../../api/answers.ts";
import { canProcessAudio } from "../../audio/audio-context.ts";
import "../../components/own-conversations.ts";
import "./composer.ts";
import {
  html,
  nothing,
  type ReactiveController,
  type ReactiveControllerHost,
  type TemplateResult,
} from "lit";
import { customElement, query } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { socketProtocols } from "../../api/http.ts";
import { allowChimes } from "../../audio/chimes.ts";
import type { Player } from "../../audio/player.ts";
import { stopAudio } from "../../components/audio-playback.ts";
import { adoptPreset } from "../../components/instructions-panel.ts";
import { namedVoice } from "../../components/named-voice.ts";
import { type TextLine, transcriptButtons } from "../../components/transcript-text.ts";
import { voicePath } from "../../components/voice-list.ts";
import { type Part, plainText, textPart } from "../../media/parts.ts";
import type { Answer, ChatEntry, Question } from "../../session/chat-exchange.ts";
import { ChatLog, type ChatSetup, CLEARED } from "../../session/chat-log.ts";
import { Instructions } from "../../session/instructions.ts";
import {
  capabilities,
  clonesVoices,
  limitations,
  modelBadge,
  questions,
} from "../../shell/capabilities.ts";
import { showError } from "../../shell/errors.ts";
import { mount } from "../../shell/shell.ts";
import { StoreController } from "../../state/store.ts";
import { ChatKeeper, keepDraft, keptDraft } from "../../storage/kept-chat.ts";
import { BaseElement, LeaveGuard } from "../../ui/base-element.ts";
import { icon } from "../../ui/icon.ts";
import { sidePanel, sidePanelButton } from "../../ui/side-panel.ts";
import { toast } from "../../ui/toasts.ts";
import { AnswerSpeaker, answerProblemOf, type Remedy } from "./answer.ts";
import type { Composer, QuestionElement } from "./composer.ts";
import { chatPanel, chatRequestFields, chatSettings } from "./panel.ts";
import { chatStrings } from "./strings.ts";
import "./page.css";

const NEAR = 120; // distance from the end of the page that still counts as the end, pixels

const TOUCH = matchMedia("(pointer: coarse)").matches;

/** A text field would open the keyboard of a touch screen. */
const FOCUS_NEXT = TOUCH ? "an-composer.main .tools button" : "an-composer.main textarea";

/** Keeps the newest text visible unless the user has scrolled up. */
class AutoScroll implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #hasMessages: () => boolean;
  /** Watches for growth of the page, also by images that load late. */
  readonly #growth = new ResizeObserver(() => this.#grown());
  #height = 0;
  #top = 0;
  /** Whether the user has scrolled up. */
  away = false;

  constructor(host: ReactiveControllerHost, hasMessages: () => boolean) {
    this.#host = host;
    this.#hasMessages = hasMessages;
    host.addController(this);
  }

  hostConnected(): void {
    window.addEventListener("scroll", this.#onScroll, { passive: true });
    this.#growth.observe(document.body);
  }

  hostDisconnected(): void {
    window.removeEventListener("scroll", this.#onScroll);
    this.#growth.disconnect();
  }

  /** Scrolls to the newest message and follows it. */
  show(): void {
    this.away = false;
    this.#toEnd();
    this.#host.requestUpdate();
  }

  #toEnd(): void {
    window.scrollTo({ top: document.documentElement.scrollHeight });
  }

  #grown(): void {
    const { scrollHeight } = document.documentElement;
    const hasGrown = scrollHeight > this.#height && this.#height > 0;
    if (hasGrown && !this.away && this.#hasMessages()) this.#toEnd();
    this.#height = scrollHeight;
  }

  /** Only scrolling up counts as leaving the end, because the page itself may grow. */
  readonly #onScroll = (): void => {
    const { scrollHeight } = document.documentElement;
    const isFar = scrollHeight - window.scrollY - window.innerHeight > NEAR;
    const away = isFar && (this.away || window.scrollY < this.#top);
    this.#top = window.scrollY;
    if (away === this.away) return;
    this.away = away;
    this.#host.requestUpdate();
  };
}

/** Accepts files that are dropped anywhere in the window. */
class DropZone implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #onFiles: (files: readonly File[]) => void;
  /** Whether a file is over the window. */
  over = false;

  constructor(host: ReactiveControllerHost, onFiles: (files: readonly File[]) => void) {
    this.#host = host;
    this.#onFiles = onFiles;
    host.addController(this);
  }

  hostConnected(): void {
    window.addEventListener("dragover", this.#onOver);
    window.addEventListener("dragleave", this.#onLeave);
    window.addEventListener("drop", this.#onDrop);
  }

  hostDisconnected(): void {
    window.removeEventListener("dragover", this.#onOver);
    window.removeEventListener("dragleave", this.#onLeave);
    window.removeEventListener("drop", this.#onDrop);
  }

  readonly #onOver = (event: DragEvent): void => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    this.#show(true);
  };

  /** Enter and leave events of nested elements overlap, so they are counted. */
  readonly #onLeave = (event: DragEvent): void => {
    if (event.relatedTarget === null) this.#show(false);
  };

  readonly #onDrop = (event: DragEvent): void => {
    const files = [...(event.dataTransfer?.files ?? [])];
    this.#show(false);
    if (files.length === 0) return;
    event.preventDefault();
    this.#onFiles(files);
  };

  #show(over: boolean): void {
    if (over === this.over) return;
    this.over = over;
    this.#host.requestUpdate();
  }
}

/** The chat page: text, images, audio and videos, with written and spoken answers. */
@customElement("an-chat-page")
export class ChatPage extends BaseElement {
  readonly #settings = new StoreController(this, chatSettings);
  readonly #able = new StoreController(this, capabilities);
  readonly #instructions = new Instructions("turnbased", chatSettings, clonesVoices);
  readonly #voice = new AnswerSpeaker(() => this.#log.isAnswering && this.#log.silence());
  readonly #speaks = new StoreController(this, this.#voice.speaks);
  readonly #log = new ChatLog((entries) => this.#setup(entries));
  readonly #keeper = new ChatKeeper(this.#log);
  readonly #entries = new StoreController(this, this.#log.state);
  readonly #scroll = new AutoScroll(this, () => this.#entries.value.entries.length > 0);
  readonly #draft = [textPart(keptDraft())];
  readonly #drop = new DropZone(this, (files) => void this.composer.add(files));

  @query("an-composer.main") private readonly composer!: Composer;

  constructor() {
    super();
    new LeaveGuard(this, () => this.composer?.hasFiles || !this.#keeper.isComplete);
    this.#keeper.hasFailed.subscribe((failed) => {
      const { notKept: title, notKeptRemedy: remedy } = chatStrings();
      if (failed) toast({ tone: "danger", title, remedy });
    });
  }

  override connectedCallback(): void {
    super.connectedCallback();
    window.addEventListener("pagehide", this.#stopOnLeave);
    this.#keeper.restore().catch(() => undefined); // a browser without a database keeps nothing
  }

  override disconnectedCallback(): void {
    window.removeEventListener("pagehide", this.#stopOnLeave);
    this.#log.stop();
    this.#voice.close();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const t = chatStrings();
    const { entries } = this.#entries.value;
    return html`<div class="page-head">
        <div>
          <div class="row tight still"><h1>${t.title}</h1> ${modelBadge(this.#able.value)}</div>
          <p>${limitations(this.#able.value) || t.lead}</p>
        </div>
        <div class="row tight still"><an-own-conversations></an-own-conversations> ${this.#newButton()} ${sidePanelButton(t.settings)}</div>
      </div>
      <div class="split">
        <section class="chat" aria-label=${t.log} data-focus-next=${FOCUS_NEXT}>
          ${entries.length === 0 ? chatWelcome(this.#able.value, (text) => this.#showErrors(this.#log.ask([textPart(text)]))) : this.#conversation(entries)}
          <p class="visually-hidden" role="status">${this.#statusAnnouncement()}</p>
          ${this.#footer()}
        </section>
        ${sidePanel({ label: t.settings, body: chatPanel(this.#instructions) })}
      </div>
      ${this.#drop.over ? html`<div class="drop">${icon("attach")} ${t.drop}</div>` : nothing}`;
  }

  #conversation(entries: readonly ChatEntry[]): TemplateResult {
    return html`<ol role="list" class="messages">
      ${repeat(
        entries,
        ({ id }) => id,
        (entry, index) =>
          html`<li>
            ${entry.role === "user" ? this.#question(entry) : this.#answer(entry, index === entries.length - 1)}
          </li>`,
      )}
    </ol>
    ${this.#log.busy ? nothing : html`<div class="row tight still transcript">${transcriptButtons(entries.map(lineOf), "chat", { named: true })}</div>`}`;
  }

  #question(question: Question): TemplateResult {
    return html`<an-question
      .question=${question}
      .excluded=${this.#entries.value.excluded}
      ?busy=${this.#log.busy}
      @edit=${({ detail }: CustomEvent<Part[]>) => this.#askEdited(question.id, detail)}
      @remove=${() => this.#remove(question)}
      @stop=${this.#stop}
    ></an-question>`;
  }

  #answer(answer: Answer, last: boolean): TemplateResult {
    return html`<an-answer
      .answer=${answer}
      .problem=${answerProblemOf(answer, this.#settings.value)}
      ?last=${last && this.#log.canAskAgain}
      ?busy=${this.#log.busy}
      @stop=${this.#stop}
      @reconnect=${() => this.#log.retryNow()}
      @again=${() => this.#showErrors(this.#log.again())}
      @rewrite=${({ detail }: CustomEvent<string>) => this.#log.rewrite(answer.id, detail)}
      @remove=${() => this.#remove(answer)}
      @remedy=${({ detail }: CustomEvent<Remedy>) => this.#applyRemedy(answer, detail)}
    ></an-answer>`;
  }

  #footer(): TemplateResult {
    const t = chatStrings();
    return html`<div class="foot">
      ${
        this.#scroll.away && this.#entries.value.entries.length > 0
          ? html`<button
              class="button square latest"
              aria-label=${t.latest}
              title=${t.latest}
              @click=${() => this.#scroll.show()}
            >
              ${icon("chevron")}
            </button>`
          : nothing
      }
      <an-composer
        class="main"
        .draft=${this.#draft}
        ?busy=${this.#log.busy}
        .tools=${this.#speechButton()}
        @text=${({ detail }: CustomEvent<string>) => keepDraft(detail)}
        @send=${({ detail }: CustomEvent<Part[]>) => this.#ask(detail)}
        @stop=${this.#stop}
      ></an-composer>
    </div>`;
  }

  /** Stops the current speech, or toggles speech for the next answer. */
  #speechButton(): TemplateResult {
    const t = chatStrings();
    const { spoken } = this.#settings.value;
    const stopSpeech = this.#speaks.value && !this.#log.busy;
    const label = stopSpeech ? t.stopSpeech : spoken ? t.quiet : t.speak;
    return html`<button
      class="button quiet square ${stopSpeech ? "speaking" : ""}"
      type="button"
      aria-label=${label}
      title=${label}
      @click=${() => (stopSpeech ? this.#voice.stopSpeech() : this.#toggleSpoken())}
    >
      ${icon(spoken ? "speaker" : "speakerOff")}
    </button>`;
  }

  #newButton(): TemplateResult | typeof nothing {
    if (this.#entries.value.entries.length === 0) return nothing;
    return html`<button class="button new" @click=${this.#startNew}>
      ${icon("plus")} <span>${chatStrings().newChat}</span>
    </button>`;
  }

  /** Announces complete answers only. Spoken answers are not announced. */
  #statusAnnouncement(): string {
    const last = this.#entries.value.entries.at(-1);
    if (last?.role !== "assistant") return this.#log.busy ? chatStrings().thinking : "";
    if (last.exchange.phase !== "ended")
      return last.text ? chatStrings().writing : chatStrings().thinking;
    return last.audio ? chatStrings().complete : last.text;
  }

  async #setup(entries: readonly ChatEntry[]): Promise<ChatSetup> {
    const opening = chatSettings.value.spoken ? this.#openPlayer() : undefined; // needs the user's gesture
    await this.#instructions.complete();
    const named = await namedVoice();
    const path = clonesVoices() ? await voicePath(chatSettings.value.speech) : undefined;
    const player = await opening;
    const chosen = chatSettings.value;
    return {
      system: this.#instructions.messageParts,
      request: chatRequestFields(chosen, this.#instructions, entries, { named, path }),
      exchange: { player, connection: { protocols: socketProtocols() } },
    };
  }

  /** Turns spoken answers off if the browser has no audio output. */
  async #openPlayer(): Promise<Player | undefined> {
    try {
      if (canProcessAudio()) return await this.#voice.player();
    } catch (error) {
      if (!(error instanceof DOMException && error.name === "TimeoutError")) throw error;
    }
    chatSettings.update({ spoken: false });
    toast({ tone: "caution", title: chatStrings().noOutput });
    return undefined;
  }

  #ask(parts: readonly Part[]): void {
    if (this.#log.busy) return;
    this.composer.clear();
    this.composer.focus();
    this.#showErrors(
      this.#log.ask(parts).catch((error: unknown) => {
        if (error !== CLEARED) this.composer.putBack(parts);
        throw error;
      }),
    );
  }

  #askEdited(id: number, parts: readonly Part[]): void {
    this.#showErrors(
      this.#log.edit(id, parts).catch((error: unknown) => {
        this.#questions.find(({ question }) => question.id === id)?.edit(parts);
        throw error;
      }),
    );
  }

  get #questions(): QuestionElement[] {
    return [...this.querySelectorAll<QuestionElement>("an-question")];
  }

  /** Call it in a user gesture, which allows audio. */
  #showErrors(work: Promise<void>): void {
    allowChimes();
    stopAudio();
    this.#scroll.show();
    work.catch((error: unknown) => showError(error));
  }

  readonly #stop = (): void => {
    this.#log.stop();
    this.#voice.stopSpeech();
  };

  readonly #stopOnLeave = (): void => this.#log.leave();

  readonly #startNew = (): void => {
    if (!this.#keeper.keeps && !confirm(chatStrings().newChatAsk)) return;
    this.#voice.stopSpeech();
    stopAudio();
    this.#keeper.startNew();
    this.composer.focus();
  };

  #toggleSpoken(): void {
    chatSettings.update({ spoken: !chatSettings.value.spoken });
    if (chatSettings.value.spoken) return;
    this.#log.silence();
    this.#voice.stopSpeech();
  }

  #remove({ id }: ChatEntry): void {
    const undo = this.#log.remove(id);
    toast({
      tone: "info",
      title: chatStrings().removed,
      action: { label: chatStrings().undo, run: undo },
    });
  }

  #applyRemedy({ refused }: Answer, remedy: Remedy): void {
    if (remedy === "edit") {
      this.#editLast();
      return;
    }
    if (remedy === "thinking") chatSettings.update({ thinking: false });
    else if (remedy === "speech") chatSettings.update({ spoken: false });
    else if (remedy === "videoSound") chatSettings.update({ videoSound: true });
    else if (remedy === "image" || remedy === "video") this.#log.exclude(this.#log.partsOf(remedy));
    else if (refused) this.#log.exclude([refused]);
    this.#showErrors(this.#log.again());
  }

  #editLast(): void {
    this.#questions.at(-1)?.edit();
  }
}

function lineOf(entry: ChatEntry): TextLine {
  if (entry.role === "assistant") return { role: "model", text: entry.text };
  const names = entry.parts.flatMap((part) => (part.type === "text" ? [] : [`[${part.name}]`]));
  return { role: "user", text: [...names, plainText(entry.parts)].join(" ") };
}

function hint(able: Capabilities | null): string {
  const t = chatStrings();
  const blind = able?.sees === false;
  if (TOUCH) return blind ? t.emptyHintTouchBlind : t.emptyHintTouch;
  return blind ? t.emptyHintBlind : t.emptyHint;
}

/** Welcome screen. `ask` sends a suggestion. */
function chatWelcome(able: Capabilities | null, ask: (text: string) => void): TemplateResult {
  const t = chatStrings();
  return html`<div class="welcome">
    <span class="sign">${icon("chat")}</span>
    <h2>${t.empty}</h2>
    <p class="soft">${hint(able)}</p>
    ${able?.sees_in_words ? html`<p class="soft">${t.emptyHintWords}</p>` : nothing}
    <div class="stack tight">
      ${Object.values(questions(able)).map(
        (text) => html`<button class="button" @click=${() => ask(text)}>${text}</button>`,
      )}
    </div>
  </div>`;
}

adoptPreset(chatSettings);
mount({
  help: async () => (await import("../help.ts")).pageHelp,
  title: () => chatStrings().title,
  description: () => chatStrings().description,
  content: () => html`<an-chat-page></an-chat-page>`,
});
