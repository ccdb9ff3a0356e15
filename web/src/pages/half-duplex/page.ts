import "../../components/audio-player.ts";
import "../../components/own-conversations.ts";
import "../../components/recording-actions.ts";
import "../../components/voice-orb.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, query, state } from "lit/decorators.js";
import { repeat } from "lit/directives/repeat.js";
import type { Levels } from "../../audio/audio-engine.ts";
import { INPUT_RATE, OUTPUT_RATE, type Samples } from "../../audio/pcm.ts";
import { controlBar } from "../../components/control-bar.ts";
import { microphoneLost } from "../../components/device-select.ts";
import { adoptPreset } from "../../components/instructions-panel.ts";
import { sessionBadges, sessionEndNotice } from "../../components/session-status.ts";
import { copyText, type TextLine, transcriptButtons } from "../../components/transcript-text.ts";
import type { OrbMode, VoiceOrb } from "../../components/voice-orb.ts";
import { common } from "../../i18n/common.ts";
import { formatClock, formatDuration, formatSeconds } from "../../i18n/language.ts";
import {
  type HalfDuplexSessionState,
  type HalfDuplexTurnState,
  NEW_HALF_DUPLEX,
  type TurnAudio,
} from "../../session/half-duplex-session.ts";
import { Instructions } from "../../session/instructions.ts";
import type { ConnectionStatus } from "../../session/session.ts";
import {
  capabilities,
  clonesVoices,
  exampleQuestion,
  limitations,
  modelBadge,
} from "../../shell/capabilities.ts";
import { helpButton } from "../../shell/header.ts";
import { mount } from "../../shell/shell.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement, type ChangedProperties } from "../../ui/base-element.ts";
import { loudnessShare } from "../../ui/controls.ts";
import { dialog } from "../../ui/dialog.ts";
import { icon } from "../../ui/icon.ts";
import { sidePanel, sidePanelButton } from "../../ui/side-panel.ts";
import { halfDuplexPanel, halfDuplexSettings } from "./panel.ts";
import { SessionController } from "./session-controller.ts";
import { halfDuplexStrings } from "./strings.ts";
import "./page.css";

const SHOWN_BELOW_S = 2; // shorter than the full time: nothing has been sent for a while
const SOON_S = 20;

/** The main area: whose turn it is, input level, and controls. */
function halfDuplexStage(controller: SessionController, check: () => void): TemplateResult {
  const state = controller.state;
  const at = controller.opening ? "opening" : stageOf(state);
  const t = halfDuplexStrings();
  return html`<section class="card stage ${controller.running ? "running" : ""}" aria-label=${t.stage}>
    <an-voice-orb mode=${orbModeOf(at)}></an-voice-orb>
    <div class="stack tight middle">
      <h2><span role="status">${t.state[at]}</span>${spokenFor(at, controller)}</h2>
      ${below(at, state)}
      ${controller.running ? countdown(state) : nothing}
    </div>
    <div class="row controls">${controller.running ? running(at, controller) : paused(at, controller, check)}</div>
  </section>`;
}

function spokenFor(at: StageState, controller: SessionController): TemplateResult | typeof nothing {
  if (at !== "hearing") return nothing;
  const spokenS = (performance.now() - controller.speechStartedAt) / 1000;
  return html`<span class="soft number" aria-hidden="true"> ${formatClock(spokenS)}</span>`;
}

/** What the user has said so far, or what to do. */
function below(at: StageState, state: HalfDuplexSessionState | null): TemplateResult {
  const said = at === "hearing" ? (state?.interim ?? "") : "";
  return said === ""
    ? html`<p class="soft hint">${hint(at)}</p>`
    : html`<p class="soft hint said" aria-hidden="true"><span>${said}</span></p>`;
}

function hint(at: StageState): string {
  const t = halfDuplexStrings().hint;
  const hints: Partial<Record<StageState, string>> = {
    ...t,
    listening: t.listening(formatSeconds(halfDuplexSettings.value.minSilenceMs / 1000)),
  };
  return hints[at] ?? "";
}

/**
 * Visible while the user is muted, and shortly before the end. Answers send nothing either, but it
 * would come and go with each of them. Its place is reserved, so that the controls do not move.
 */
function countdown(state: HalfDuplexSessionState | null): TemplateResult {
  const { phase, quietDeadline, timeoutS, turnState, muted } = state ?? NEW_HALF_DUPLEX;
  const leftS = ((quietDeadline ?? 0) - performance.now()) / 1000;
  const isMuted = muted && turnState === "listening";
  const below = isMuted && timeoutS ? Math.max(SOON_S, timeoutS - SHOWN_BELOW_S) : SOON_S;
  const shown = phase === "active" && quietDeadline && leftS <= below;
  if (!shown) return html`<p class="badge countdown unseen" aria-hidden="true">0:00</p>`;
  const text = formatClock(Math.max(0, leftS));
  const t = halfDuplexStrings();
  return html`<p class="badge dot countdown ${leftS < SOON_S ? "caution" : ""}" title=${t.leftLong(text)}>
    <span class="number" role="timer">${t.left(text)}</span>
  </p>`;
}

function paused(at: StageState, controller: SessionController, check: () => void): TemplateResult {
  const t = halfDuplexStrings();
  return html`<button class="button primary large" @click=${controller.start}>
      ${icon("mic")} ${at === "idle" ? t.start : t.again}
    </button>
    ${
      at === "idle"
        ? html`<button class="button quiet" @click=${check}>${t.check}</button>`
        : nothing
    }`;
}

function running(at: StageState, controller: SessionController): TemplateResult {
  const t = halfDuplexStrings();
  const muted = controller.state?.muted ?? false;
  const active = controller.state?.phase === "active";
  const rests = controller.state?.turnState === "settling";
  const answers = !rests && (at === "thinking" || at === "speaking" || at === "writing");
  return controlBar(t.controls, [
    {
      iconName: muted ? "micOff" : "mic",
      label: t.mute,
      tone: "mute",
      pressed: muted,
      disabled: !active,
      run: controller.toggleMuted,
    },
    { iconName: "hand", label: t.stopReply, disabled: !answers, run: controller.stopReply },
    {
      iconName: "phone",
      label: t.end,
      shown: t.endShown,
      tone: "end",
      disabled: at === "stopping",
      run: controller.stop,
    },
  ]);
}

/** The state that the stage shows. */
export type StageState = keyof ReturnType<typeof halfDuplexStrings>["state"];

const MODES: Record<StageState, OrbMode> = {
  idle: "idle",
  opening: "connecting",
  connecting: "connecting",
  queued: "paused",
  preparing: "connecting",
  reconnecting: "connecting",
  listening: "listening",
  muted: "paused",
  hearing: "hearing",
  thinking: "thinking",
  speaking: "speaking",
  writing: "thinking",
  stopping: "paused",
  ended: "ended",
};

function stageOf(state: HalfDuplexSessionState | null): StageState {
  const started = state?.recordingId !== null; // a session that never started counts as idle
  if (state === null || (state.phase === "ended" && !started)) return "idle";
  if (state.queue !== null) return "queued";
  if (state.phase !== "active") return state.phase === "paused" ? "listening" : state.phase;
  const { turnState, turns, connection } = state;
  const isUsersTurn = turnState === "listening" || turnState === "hearing";
  if (isUsersTurn && connection.state === "reconnecting") return "reconnecting";
  if (turnState === "listening" && state.muted) return "muted";
  const answer = turns.at(-1);
  // The microphone opens in a moment. Until then nothing new is shown.
  if (turnState === "settling") return restingAt(answer, halfDuplexSettings.value.spoken);
  return turnState === "thinking" && answer?.reply ? "writing" : turnState;
}

function restingAt(answer: HalfDuplexTurnState | undefined, spoken: boolean): StageState {
  if (answer?.cut) return "listening";
  return spoken ? "speaking" : "writing";
}

function orbModeOf(stage: StageState): OrbMode {
  return MODES[stage];
}

function linesOf({ userText, reply }: HalfDuplexTurnState): TextLine[] {
  return [
    { role: "user", text: userText },
    { role: "model", text: reply },
  ];
}

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
    const { id, speechMs, userText, done } = this.turn;
    const asked = html`<div class="message user">
      <p class="tiny strong">${t.spoke(formatSeconds(speechMs / 1000))}</p>
      ${userText === "" ? nothing : html`<p class="user-text ${done ? "" : "interim"}" aria-hidden=${!done || nothing}>${userText}</p>`}
      ${this.#player(this.#sound?.user, INPUT_RATE, t.yourSpeech(id + 1))}
    </div>`;
    return html`${speechMs === 0 ? nothing : asked}
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
    await copyText(this.turn.reply.trim(), halfDuplexStrings().copied);
  }
}

/** The half-duplex page: stage, transcript, settings. */
@customElement("an-half-duplex-page")
export class HalfDuplexPage extends BaseElement {
  readonly #settings = new StoreController(this, halfDuplexSettings);
  readonly #able = new StoreController(this, capabilities);
  readonly #instructions = new Instructions("half_duplex_audio", halfDuplexSettings, clonesVoices);
  readonly #controller = new SessionController(this, this.#instructions, (levels) =>
    this.#show(levels),
  );
  /** Shows the newest turn, also when a part of it appears late or the window changes. */
  readonly #growth = new ResizeObserver(() => {
    if (this.list.childElementCount > 0) this.turns.scrollTo({ top: this.turns.scrollHeight });
  });

  /** For the head of the page. They do not change in a session, so that its controls do not move. */
  #shownAble = capabilities.value;

  @state() private checking = false;
  @query("an-voice-orb") private readonly orb!: VoiceOrb;
  @query(".turns") private readonly turns!: HTMLElement;
  @query(".turns > ol") private readonly list!: HTMLElement;

  override disconnectedCallback(): void {
    this.#growth.disconnect();
    super.disconnectedCallback();
  }

  protected override firstUpdated(): void {
    for (const element of [this.turns, this.list]) this.#growth.observe(element);
  }

  protected override render(): TemplateResult {
    const t = halfDuplexStrings();
    const { state } = this.#controller;
    const { running } = this.#controller;
    if (!running) this.#shownAble = this.#able.value;
    return html`<div class="page-head">
        <div>
          <div class="row tight still"><h1>${t.title}</h1> ${running ? nothing : modelBadge(this.#shownAble)}</div>
          ${running ? this.#badges() : html`<p>${limitations(this.#shownAble) || t.lead}</p>`}
        </div>
        <div class="row tight still">
          ${running ? nothing : html`<an-own-conversations></an-own-conversations>`}
          ${sidePanelButton(t.settings)}
        </div>
      </div>
      <div class="split">
        <div class="stack conversation" data-focus-next=".stage .button">
          ${halfDuplexStage(this.#controller, () => this.#check(true))}
          <an-connection-banner
            .connection=${troubled(state?.connection)}
            @retry=${this.#controller.retryNow}
            @again=${this.#controller.start}
          ></an-connection-banner>
          ${running && state?.sourceEnded ? microphoneLost(this.#controller.useMicrophone) : nothing}
          ${sessionEndNotice(state?.end ?? null)}
          <an-queue-panel .status=${state?.queue ?? null} @leave=${this.#controller.stop}></an-queue-panel>
          ${this.#recording()} ${this.#turns()}
        </div>
        ${sidePanel({
          label: t.settings,
          actions: running ? helpButton() : nothing,
          body: halfDuplexPanel(this.#instructions, running),
        })}
      </div>
      ${this.#checkDialog()}`;
  }

  #badges(): TemplateResult {
    return sessionBadges(this.#controller.state?.phase ?? "idle", {
      recorded: this.#settings.value.record,
      simulated: this.#shownAble?.simulated ?? false,
    });
  }

  #turns(): TemplateResult {
    const t = halfDuplexStrings();
    const turns = this.#controller.state?.turns ?? [];
    const spoken = this.#settings.value.spoken;
    const greeted = this.#controller.running && turns.length === 1 && turns[0]?.speechMs === 0;
    return html`<section class="card flush turns" tabindex="0" aria-label=${t.turns}>
      ${this.#controller.running || turns.length === 0 ? nothing : html`<div class="row tight still tools">${transcriptButtons(turns.flatMap(linesOf), "half-duplex", { named: true })}</div>`}
      ${
        turns.length === 0
          ? html`<div class="empty">
              ${icon("turns")}<strong>${t.noTurns}</strong>
              <p>${t.noTurnsHint(exampleQuestion(this.#able.value))}</p>
            </div>`
          : nothing
      }
      <ol role="list" aria-live=${spoken ? "off" : "polite"}>
        ${repeat(
          turns,
          ({ id }) => `${this.#controller.state?.sessionId} ${id}`,
          (turn) => this.#turn(turn),
        )}
      </ol>
      ${greeted ? html`<p class="example soft">${exampleQuestion(this.#able.value)}</p>` : nothing}
    </section>`;
  }

  #turn(turn: HalfDuplexTurnState): TemplateResult {
    const { running, state } = this.#controller;
    const rests = state?.turnState === "listening" || state?.turnState === "settling";
    return html`<li>
      <an-half-duplex-turn
        .turn=${turn}
        .audioOf=${this.#controller.audioOf}
        ?silent=${running && !rests}
      ></an-half-duplex-turn>
    </li>`;
  }

  #recording(): TemplateResult | typeof nothing {
    const state = this.#controller.state;
    const recorded = state?.phase === "ended" && state.recordingId && state.turns.length > 0;
    if (!recorded || !this.#settings.value.record) return nothing;
    return html`<an-recording-actions .recordingId=${state.recordingId}></an-recording-actions>`;
  }

  #checkDialog(): TemplateResult {
    const { deviceCheck } = common();
    return dialog({
      open: this.checking,
      title: deviceCheck.title,
      body: html`<an-device-check></an-device-check>`,
      footer: html`<button class="button primary" @click=${() => this.#check(false)}>
        ${deviceCheck.done}
      </button>`,
      onClose: () => this.#check(false),
    });
  }

  async #check(open: boolean): Promise<void> {
    if (open) await import("../../components/device-check.ts");
    this.checking = open;
  }

  /** Updates the meter directly. Rendering the page ten times per second is too slow. */
  #show({ user, model }: Levels): void {
    this.orb.userLevel = loudnessShare(user.peak);
    this.orb.modelLevel = loudnessShare(model.peak);
  }
}

/** The stage shows the other states. */
function troubled(connection: ConnectionStatus | undefined): ConnectionStatus {
  return connection === undefined || connection.state === "connecting"
    ? { state: "none" }
    : connection;
}

adoptPreset(halfDuplexSettings);
mount({
  help: async () => (await import("../help.ts")).pageHelp,
  title: () => halfDuplexStrings().title,
  description: () => halfDuplexStrings().description,
  content: () => html`<an-half-duplex-page></an-half-duplex-page>`,
});
