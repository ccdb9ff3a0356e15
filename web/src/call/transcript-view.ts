import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, query, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import type { TranscriptLine } from "../session/transcript.ts";
import { BaseElement } from "../ui/base-element.ts";
import { icon } from "../ui/icon.ts";
import { callStrings } from "./strings.ts";

const NEAR_PX = 48;

/** The transcript. It follows the newest line until the user scrolls up. */
@customElement("an-transcript")
export class TranscriptView extends BaseElement {
  @property({ attribute: false }) lines: readonly TranscriptLine[] = [];

  @state() private follows = true;

  @query("ol") private readonly list!: HTMLElement | null;

  protected override updated(): void {
    if (this.follows) this.#toEnd();
  }

  protected override render(): TemplateResult {
    if (this.lines.length === 0) return nothingSaid();
    return html`<ol
        role="list"
        class="lines"
        tabindex="0"
        aria-label=${callStrings().panels.transcript}
        @scroll=${this.#look}
      >
        ${repeat(this.lines, ({ id }) => id, line)}
      </ol>
      ${this.follows ? nothing : this.#backButton()}`;
  }

  #backButton(): TemplateResult {
    return html`<button
      class="button small newest"
      @click=${() => {
        this.follows = true;
      }}
    >
      ${icon("chevron")} ${callStrings().scrollToNewest}
    </button>`;
  }

  #look(): void {
    const { list } = this;
    if (list) this.follows = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_PX;
  }

  #toEnd(): void {
    this.list?.scrollTo({ top: this.list.scrollHeight });
  }
}

function nothingSaid(): TemplateResult {
  const t = callStrings();
  return html`<div class="empty">
    ${icon("chat")}<strong>${t.noTranscript}</strong>
    <p>${t.noTranscriptHint}</p>
  </div>`;
}

function line({ role, text, cut, done }: TranscriptLine): TemplateResult {
  const t = callStrings();
  return html`<li class="line ${role} ${done ? "" : "open"}">
    <span class="speaker">${role === "user" ? t.you : t.model}</span>
    <p>${text.trim()}</p>
    ${cut ? html`<span class="cut">${t.interrupted}</span>` : nothing}
  </li>`;
}
