/**
 * `<antiphon-call>`: a voice call in any page. It needs no framework and no style sheet,
 * and has the page's colour scheme.
 */

import { MICROPHONE_DEFAULTS } from "../audio/capture.ts";
import { keyProtocols } from "../protocol/key-protocols.ts";
import { DuplexSession, type DuplexSessionState, NEW_DUPLEX } from "../session/duplex-session.ts";
import type { Phase, SessionEnd } from "../session/session.ts";
import type { TranscriptLine } from "../session/transcript.ts";
import { notOpened } from "../session/voice-session.ts";
import { type CallStrings, callStrings } from "./call-strings.ts";

const INSTRUCTIONS = "You are a helpful assistant. Be brief.";
const NO_CALL: ReadonlySet<Phase> = new Set(["idle", "ended"]);

const STYLE = `
:host { display: block; max-inline-size: 30rem; font: 1rem/1.5 system-ui, sans-serif;
  color: light-dark(#1d2625, #eef1ef); --accent: light-dark(#0b5f63, #7fd6cf); }
:host([hidden]) { display: none; }
section { display: grid; gap: 0.75rem; padding: 1rem; border-radius: 1rem;
  border: 1px solid light-dark(#d5dad7, #47504f); background: light-dark(#fff, #1b2221); }
header { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; }
p { margin: 0; flex: 1 1 8rem; overflow-wrap: anywhere; }
p::before { content: ""; display: inline-block; inline-size: 0.6rem; block-size: 0.6rem; margin-inline-end: 0.5rem;
  border-radius: 50%; background: light-dark(#7a8583, #8b9694); }
section.active p::before { background: var(--accent); }
section.speaks p::before { outline: 0.2rem solid var(--accent); outline-offset: 0.1rem; }
button { font: inherit; min-block-size: 2.75rem; padding: 0 1.1rem; border-radius: 2rem; cursor: pointer;
  border: 1px solid var(--accent); color: var(--accent); background: none; }
button.main { color: light-dark(#fff, #10201f); background: var(--accent); }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
button[hidden], ol:empty { display: none; }
ol { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.5rem; max-block-size: 16rem; overflow-y: auto; }
li { overflow-wrap: anywhere; }
li b { font-size: 0.85rem; font-weight: 600; display: block; }
li.model b { color: var(--accent); }
li.interim { opacity: 0.75; }
`;

/**
 * Attributes: `server` (the address of an edge; by default the page's), `instructions`, `voice`,
 * `greeting`, `key` (an API key, which every reader of the page sees), `record="false"` and `lang`.
 * Dispatches `antiphon-phase` and `antiphon-words`.
 */
export class AntiphonCall extends HTMLElement {
  readonly #section = document.createElement("section");
  readonly #status = document.createElement("p");
  readonly #main = document.createElement("button");
  readonly #mute = document.createElement("button");
  readonly #words = document.createElement("ol");
  #session: DuplexSession | undefined;
  #phase: Phase = "idle";

  constructor() {
    super();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    const header = document.createElement("header");
    this.#status.setAttribute("role", "status");
    this.#words.tabIndex = 0; // its text can be scrolled
    this.#main.className = "main";
    for (const button of [this.#main, this.#mute]) button.type = "button";
    this.#main.addEventListener("click", () => (this.#inCall ? this.stop() : void this.start()));
    this.#mute.addEventListener("click", () => this.#toggleMute());
    header.append(this.#status, this.#mute, this.#main);
    this.#section.append(header, this.#words);
    root.append(this.#section);
  }

  connectedCallback(): void {
    this.#render(this.#session?.state.value);
  }

  disconnectedCallback(): void {
    queueMicrotask(() => {
      if (!this.isConnected) this.stop(); // it was not only moved
    });
  }

  /** Of the call: `idle`, `opening`, `connecting`, `queued`, `preparing`, `active`, `stopping` or `ended`. */
  get phase(): Phase {
    return this.#phase;
  }

  /** Calls. Browsers open the microphone only in a click or after a permission. */
  async start(): Promise<void> {
    if (this.#inCall && this.#phase !== "stopping") return;
    this.#session = undefined; // one that is stopping ends by itself
    try {
      this.#session = this.#newSession();
    } catch (cause) {
      this.#show({ ...NEW_DUPLEX, phase: "ended", end: notOpened(cause) });
      return;
    }
    const session = this.#session;
    session.state.subscribe((state) => session === this.#session && this.#show(state));
    await session.start();
  }

  /** Hangs up. */
  stop(): void {
    if (this.#inCall) this.#session?.stop();
  }

  get #inCall(): boolean {
    return !NO_CALL.has(this.#phase);
  }

  get #texts(): CallStrings {
    const closest = this.closest<HTMLElement>("[lang]")?.lang;
    return callStrings(closest || navigator.language);
  }

  /** Throws if an attribute cannot be used. */
  #newSession(): DuplexSession {
    return new DuplexSession({
      kind: "audio",
      prepare: {
        prefix_system_prompt: this.getAttribute("instructions") ?? INSTRUCTIONS,
        record: this.getAttribute("record") !== "false",
        config: { voice: this.getAttribute("voice") ?? undefined },
      },
      greeting: async () => this.getAttribute("greeting") ?? "",
      audio: { microphone: MICROPHONE_DEFAULTS },
      connection: this.#connection(),
    });
  }

  #connection(): { base: string; protocols?: string[] } {
    const base = new URL(this.getAttribute("server") || "/", location.href).href;
    const key = this.getAttribute("key");
    return key ? { base, protocols: keyProtocols(key) } : { base };
  }

  #toggleMute(): void {
    const session = this.#session;
    session?.setMuted(!session.state.value.muted);
  }

  #show(state: DuplexSessionState): void {
    const before = this.#phase;
    this.#phase = state.phase;
    this.#render(state);
    if (state.phase !== before) this.#tell("antiphon-phase", { phase: state.phase });
  }

  #render(state: DuplexSessionState | undefined): void {
    const texts = this.#texts;
    this.#showStatus(state ? statusText(state, texts) : "", [texts.listening, texts.speaking]);
    setText(this.#main, this.#inCall ? texts.hangUp : texts.call);
    setText(this.#mute, state?.muted ? texts.unmute : texts.mute);
    this.#mute.hidden = state?.phase !== "active";
    this.#section.classList.toggle("active", state?.phase === "active");
    this.#section.classList.toggle("speaks", state?.modelSpeaks ?? false);
    if (state) this.#renderWords(state.transcript, texts);
  }

  /** A screen reader that said whose turn it is would talk over the call. */
  #showStatus(text: string, turns: readonly string[]): void {
    const isNextTurn = turns.includes(text) && turns.includes(this.#status.textContent ?? "");
    this.#status.setAttribute("aria-live", isNextTurn ? "off" : "polite");
    setText(this.#status, text);
  }

  #renderWords(lines: readonly TranscriptLine[], texts: CallStrings): void {
    const list = this.#words;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    let changed = lines.length !== list.children.length;
    while (list.children.length > lines.length) list.lastElementChild?.remove();
    for (const [index, line] of lines.entries()) {
      const item = list.children[index] ?? list.appendChild(newLine());
      item.className = `${line.role}${line.interim ? " interim" : ""}`;
      const [who, words] = item.children;
      changed = setText(who, line.role === "user" ? texts.you : texts.model) || changed;
      changed = setText(words, line.text) || changed;
    }
    if (!changed) return;
    if (atEnd) list.scrollTop = list.scrollHeight;
    this.#tell("antiphon-words", { lines });
  }

  #tell(name: string, detail: object): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

function newLine(): HTMLLIElement {
  const item = document.createElement("li");
  item.append(document.createElement("b"), document.createElement("span"));
  return item;
}

/** Returns whether the text is new. */
function setText(element: Element | undefined, text: string): boolean {
  if (!element || element.textContent === text) return false;
  element.textContent = text;
  return true;
}

function statusText(state: DuplexSessionState, texts: CallStrings): string {
  const { phase, queue, end } = state;
  if (phase === "stopping") return texts.stopping;
  if (state.connection.state === "reconnecting") return texts.reconnecting;
  if (queue && queue.position > 0) return texts.queued(queue.position);
  switch (phase) {
    case "idle":
      return "";
    case "opening":
      return texts.opening;
    case "active":
    case "paused":
      if (state.sourceEnded) return texts.microphoneLost;
      if (state.muted) return texts.muted;
      return state.modelSpeaks ? texts.speaking : texts.listening;
    case "ended":
      return end ? endText(end, texts) : texts.ended;
    default:
      return texts.connecting;
  }
}

function endText({ by, code, message }: SessionEnd, texts: CallStrings): string {
  if (by === "device") return texts.noMicrophone;
  if (by === "server") return `${texts.refused}: ${message || code}`;
  if (by !== "connection") return texts.ended;
  if (code === "unauthorized") return texts.wrongKey;
  if (code === "not_opened") return `${texts.notOpened}: ${message}`;
  const isRefusal = code !== "unreachable" && code !== "lost" && message !== "";
  return isRefusal ? `${texts.refused}: ${message}` : texts.unreachable;
}

if (!customElements.get("antiphon-call")) customElements.define("antiphon-call", AntiphonCall);
