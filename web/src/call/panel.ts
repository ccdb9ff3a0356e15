import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, query, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import { transcriptButtons } from "../components/transcript-text.ts";
import { common } from "../i18n/common.ts";
import { formatClock } from "../i18n/language.ts";
import type { TranscriptLine } from "../session/transcript.ts";
import { helpButton } from "../shell/header.ts";
import { BaseElement } from "../ui/base-element.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { type CallView, DEVELOPER_TABS, isBusy, type Panel } from "./call-actions.ts";
import { textLines } from "./call-summary.ts";
import { metricsPanel } from "./developer-panel.ts";
import { settingsPanel } from "./settings-panel.ts";
import { callStrings } from "./strings.ts";
import { words } from "./words.ts";
import "./panel.css";

const NEAR_PX = 48;

/** The transcript. It follows the newest line until the user scrolls up, unless it is `whole`. */
@customElement("an-transcript")
export class TranscriptView extends BaseElement {
  @property({ attribute: false }) lines: readonly TranscriptLine[] = [];
  /** Start of the call, `performance.now()`. */
  @property({ attribute: false }) since: number | null = null;
  /** Has the height of its lines and does not scroll. */
  @property({ type: Boolean, reflect: true }) whole = false;

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
        tabindex=${this.whole ? nothing : 0}
        aria-label=${callStrings().panels.transcript}
        @scroll=${this.#look}
      >
        ${repeat(
          this.lines,
          ({ id }) => id,
          (one) => line(one, this.since),
        )}
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

function line(said: TranscriptLine, since: number | null): TemplateResult {
  const t = callStrings();
  const { role, cut, done, interim, at } = said;
  const time = since === null ? "" : ` · ${formatClock((at - since) / 1000)}`;
  return html`<li class="line ${role} ${done ? "" : "open"}" aria-hidden=${interim || nothing}>
    <span class="speaker number">${role === "user" ? t.you : t.model}${time}</span>
    <p>${words(said)}</p>
    ${cut ? html`<span class="cut">${t.interrupted}</span>` : nothing}
  </li>`;
}

interface TabOption<T extends string = string> {
  readonly value: T;
  readonly label: string;
  readonly icon?: IconName;
}

interface Tabs<T extends string> {
  /** Prefix of the ids, unique in the page. */
  readonly id: string;
  readonly label: string;
  readonly value: T;
  readonly options: readonly TabOption<T>[];
  readonly onChange: (value: T) => void;
}

/** Tabs. Arrow keys select the next one. */
function tabs<T extends string>(spec: Tabs<T>): TemplateResult {
  return html`<div
    class="tabs"
    role="tablist"
    aria-label=${spec.label}
    @keydown=${(event: KeyboardEvent) => step(event, spec)}
  >
    ${spec.options.map((option) => {
      const chosen = option.value === spec.value;
      return html`<button
        role="tab"
        id="${spec.id}-${option.value}"
        aria-controls="${spec.id}-${option.value}-panel"
        aria-selected=${chosen}
        tabindex=${chosen ? 0 : -1}
        @click=${() => spec.onChange(option.value)}
      >
        ${option.icon ? icon(option.icon) : ""}<span>${option.label}</span>
      </button>`;
    })}
  </div>`;
}

/** The panel of a tab with the same `id` and `value`. Always rendered, hidden unless selected. */
function tabPanel(
  { id, value }: Pick<Tabs<string>, "id" | "value">,
  own: string,
  body: TemplateResult,
): TemplateResult {
  return html`<div
    role="tabpanel"
    id="${id}-${own}-panel"
    aria-labelledby="${id}-${own}"
    ?hidden=${value !== own}
  >
    ${body}
  </div>`;
}

const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 };

function step<T extends string>(event: KeyboardEvent, { value, options, onChange }: Tabs<T>): void {
  const by = STEPS[event.key];
  if (by === undefined) return;
  const now = options.findIndex((option) => option.value === value);
  const next = (now + by + options.length) % options.length;
  const option = options[next];
  if (option) onChange(option.value);
  (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
}

const ID = "call-panel";
const BODIES: Record<Panel, (view: CallView) => TemplateResult> = {
  transcript: ({ state }) =>
    html`<an-transcript .lines=${state.sessionState.transcript} .since=${state.since}></an-transcript>`,
  settings: settingsPanel,
  developer,
};

/** The open panel: beside the stage, or on narrow screens a sheet over it. */
export function callPanel(view: CallView): TemplateResult {
  const { panel, actions } = view;
  const close = (): void => actions.show(null);
  const title = panel === null ? "" : callStrings().panels[panel];
  return html`<div class="panel-backdrop" ?hidden=${panel === null} @click=${close}></div>
    <aside
      class="call-panel ${panel ?? ""}"
      id=${ID}
      tabindex="-1"
      aria-label=${title}
      ?hidden=${panel === null}
    >
      ${
        panel === null
          ? nothing
          : html`<header>
                <h2>${title}</h2>
                <div class="row tight still">
                  ${panel === "transcript" ? transcriptButtons(textLines(view.state), view.call.kind) : nothing}
                  ${isBusy(view.state) ? helpButton() : nothing}
                  <button class="button quiet square" aria-label=${common().close} @click=${close}>
                    ${icon("close")}
                  </button>
                </div>
              </header>
              <div class="body">${BODIES[panel](view)}</div>`
      }
    </aside>`;
}

const ICONS = { transcript: "chat", settings: "settings", developer: "code" } as const;

/** Buttons that open and close the panels. After a call, the page itself shows the transcript. */
export function panelButtons({ panel, state, actions }: CallView): TemplateResult[] {
  const after = state.sessionState.phase === "ended";
  const shown = (Object.keys(ICONS) as Panel[]).filter((name) => !after || name !== "transcript");
  return shown.map((name) => {
    const label = callStrings().panels[name];
    return html`<button
      class="button quiet square"
      data-panel=${name}
      title=${label}
      aria-label=${label}
      aria-controls=${ID}
      aria-expanded=${panel === name}
      @click=${() => actions.show(panel === name ? null : name)}
    >
      ${icon(ICONS[name])}<span class="name">${label}</span>
    </button>`;
  });
}

function developer(view: CallView): TemplateResult {
  const t = callStrings();
  const group = { id: "developer", value: view.tab };
  const audio = isBusy(view.state) ? view.call.session?.audio : undefined;
  return html`${tabs({
    ...group,
    label: t.panels.developer,
    options: DEVELOPER_TABS.map((value) => ({ value, label: t.tabs[value] })),
    onChange: view.actions.selectTab,
  })}
  ${tabPanel(group, "metrics", metricsPanel(view))}
  ${tabPanel(group, "audio", html`<an-audio-mixer .audio=${audio}></an-audio-mixer>`)}
  ${tabPanel(group, "events", view.tab === "events" ? html`<an-event-list .log=${view.call.events}></an-event-list>` : html``)}`;
}
