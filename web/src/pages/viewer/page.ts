import type { RecordingMeta } from "../../api/answers.ts";
import { sitePath } from "../../api/site.ts";
import "../../components/own-conversations.ts";
import "./transcript.ts";
import "./timeline-view.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { isShareToken, recordingPeaks } from "../../api/recordings.ts";
import { readWaveform, type Waveform, waveformOf } from "../../audio/waveform.ts";
import { recordingSheetStrings } from "../../components/recording-sheet-strings.ts";
import {
  playerControlsStrings,
  ReplayPlayer,
  type ReplayState,
} from "../../components/replay-player.ts";
import { common } from "../../i18n/common.ts";
import { formatClock, formatDateTime } from "../../i18n/language.ts";
import { alignToSound, firstSoundMs } from "../../replay/sound-runs.ts";
import { adjacentTurn, type Timeline } from "../../replay/timeline.ts";
import { savedName, saveRecording } from "../../session/browser-recording.ts";
import { showError, UserTask } from "../../shell/errors.ts";
import { mount } from "../../shell/shell.ts";
import { StoreController } from "../../state/store.ts";
import { BaseElement, type ChangedProperties } from "../../ui/base-element.ts";
import { dialog } from "../../ui/dialog.ts";
import { icon } from "../../ui/icon.ts";
import { inactive } from "../../ui/inactive.ts";
import { buildPage } from "../../ui/page-build.ts";
import { toast } from "../../ui/toasts.ts";
import { recordingDetails } from "./details.ts";
import { liveNotice, recordingNotices, unavailableNotice } from "./notices.ts";
import { DeepLink, momentHash, recordingName } from "./playback.ts";
import { Assets, type LoadState, RecordingLoader } from "./recording-loader.ts";
import { viewerStrings } from "./strings.ts";
import "./page.css";

const STEP_MS = 2000;
const LONG_STEP_MS = 10_000;
const WRITES = "input:not([type=range]), textarea, select, [contenteditable]";
/** They use the keys themselves. The timeline does not. */
const SCROLLS = "audio, video, pre, [tabindex='0']:not(.scroller)";
const PRESSED = "button, a, summary";

/**
 * Space plays, left and right seek, up and down go to the previous and next turn. Returns true if
 * the key was used: it scrolls the page if there is no other turn.
 */
function handleKey(
  event: KeyboardEvent,
  replay: ReplayPlayer,
  step: (by: -1 | 1) => boolean,
): boolean {
  const target = event.target instanceof globalThis.Element ? event.target : null;
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (target?.matches(WRITES) || target?.closest(SCROLLS)) return false;
  if (document.querySelector("dialog[open]") !== null) return false;
  if (event.key === " ") return !target?.matches(PRESSED) && done(() => replay.toggle());
  if (event.key === "ArrowUp") return step(-1);
  if (event.key === "ArrowDown") return step(1);
  const moves: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => replay.seek(replay.at.value - (event.shiftKey ? LONG_STEP_MS : STEP_MS)),
    ArrowRight: () => replay.seek(replay.at.value + (event.shiftKey ? LONG_STEP_MS : STEP_MS)),
    Home: () => replay.seek(0),
    End: () => replay.seek(replay.lengthMs),
  };
  const move = moves[event.key];
  return move !== undefined && done(move);
}

function done(move: () => void): true {
  move();
  return true;
}

/** Of the open recording. */
let windowTitle = "";

/** More silence than this at the start is skipped. */
const LEAD_MS = 1500;
const BEFORE_SOUND_MS = 500;

/** A loaded recording: player, timeline, transcript and actions. */
@customElement("an-recording")
export class RecordingView extends BaseElement {
  readonly #saving = new UserTask(this);
  #replay = new ReplayPlayer(0);
  #assets = new Assets("");
  #state: StoreController<ReplayState> | null = null;
  #link: DeepLink | null = null;

  /** Recording id or share token. */
  @property() name = "";
  @property({ attribute: false }) loaded!: LoadState & { is: "open" };

  @state() private shape: Waveform | null = null;
  @state() private timeline!: Timeline;
  @state() private sharing = false;

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("keydown", this.#onKey);
  }

  override disconnectedCallback(): void {
    document.removeEventListener("keydown", this.#onKey);
    this.#link?.close();
    this.#assets.close();
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (!changed.has("loaded")) return;
    const { meta, timeline, own } = this.loaded;
    if (this.#state === null) {
      this.#replay = new ReplayPlayer(timeline.lengthMs);
      this.#state = new StoreController(this, this.#replay.state);
      this.#link = new DeepLink(this.#replay);
    }
    const before = changed.get("loaded");
    if (!before || before.own !== own) {
      this.#assets = new Assets(this.name, own?.files);
      this.#replay.resize(timeline.lengthMs);
    }
    if (before?.timeline !== timeline) this.timeline = timeline;
    const isNew = before?.own !== own || meta.merged_replay !== before?.meta.merged_replay;
    if (meta.merged_replay && isNew) void this.#loadWaveform(meta.merged_replay);
  }

  protected override updated(): void {
    windowTitle = titleOf(this.loaded);
    document.title = `${windowTitle} · Antiphon`;
  }

  protected override render(): TemplateResult {
    const { meta, comment } = this.loaded;
    const isShared = isShareToken(this.name);
    const isChat = meta.app_type === "chat";
    const hasReplay = Boolean(meta.merged_replay);
    return html`${this.#head(meta, isShared)}
      ${recordingNotices(this.loaded, this.#state?.value.broken ?? false)}
      <div class="split">
        ${this.#player(
          meta,
          this.timeline.costs.some(({ total }) => total > 0),
        )}
        ${isChat ? this.#transcript(!hasReplay, "wide") : this.#transcript(!hasReplay, "beside")}
        <section class="stack ${isChat ? "beside" : ""}">${this.#footer(meta, comment)}</section>
      </div>
      ${this.#shareDialog()}`;
  }

  #head(meta: RecordingMeta, isShared: boolean): TemplateResult {
    const t = viewerStrings();
    const length = meta.duration_s ?? this.#replay.lengthMs / 1000;
    const answers = this.timeline.lines.filter(({ role }) => role === "model").length;
    const count = meta.turns != null ? t.turns(meta.turns) : t.answers(answers);
    return html`<div class="page-head">
      <div>
        <h1>${titleOf(this.loaded)}</h1>
        <p class="row tight small">
          <span>${t.kinds[meta.app_type]}</span>
          <span>${formatDateTime(meta.created_at)}</span>
          <span class="number">${formatClock(length)}</span>
          <span>${count}</span>
          ${meta.state === "interrupted" ? html`<span class="badge caution">${t.interrupted}</span>` : nothing}
          ${isShared ? html`<span class="badge accent">${t.shared}</span>` : nothing}
        </p>
      </div>
      <div class="row tight">
        ${isShared ? nothing : html`<an-own-conversations></an-own-conversations>`}
        ${this.#replay.lengthMs > 0 ? this.#momentButton() : nothing}
        ${this.loaded.own === null ? nothing : this.#saveButton()}
        ${
          this.loaded.own?.why === "not_on_server"
            ? nothing
            : html`<button class="button primary" @click=${() => this.#openSheet()}>
                ${icon(isShared ? "download" : "share")} ${isShared ? t.download : t.share}
              </button>`
        }
      </div>
    </div>`;
  }

  /** For files of this browser. The sheet has those of the server. */
  #saveButton(): TemplateResult {
    return html`<button
      class="button"
      ${inactive(this.#saving.isRunning)}
      @click=${() => this.#saving.run(() => this.#saveOwn())}
    >
      ${icon("download")} ${viewerStrings().download}
    </button>`;
  }

  #momentButton(): TemplateResult {
    const t = viewerStrings();
    return html`<button
      class="button square"
      aria-label=${t.copyMoment}
      title=${t.copyMoment}
      @click=${() => this.#copyMoment()}
    >
      ${icon("link")}
    </button>`;
  }

  #player(meta: RecordingMeta, hasCosts: boolean): TemplateResult | typeof nothing {
    const { timeline } = this;
    if (!this.#hasPlayer) return nothing;
    return html`<section class="card flush player" aria-label=${playerControlsStrings().label}>
      <an-replay-media .meta=${meta} .timeline=${timeline} .replay=${this.#replay} .assets=${this.#assets}></an-replay-media>
      ${
        meta.merged_replay
          ? html`<an-player-controls class="row still" .replay=${this.#replay} .step=${this.#step}></an-player-controls>`
          : nothing
      }
      <an-timeline
        .timeline=${timeline}
        .replay=${this.#replay}
        .assets=${this.#assets}
        .shape=${this.shape}
      ></an-timeline>
      ${hasCosts ? html`<an-unit-costs .timeline=${timeline} .replay=${this.#replay}></an-unit-costs>` : nothing}
    </section>`;
  }

  get #hasPlayer(): boolean {
    const { meta } = this.loaded;
    const isEmpty = this.timeline.lengthMs === 0 || meta.app_type === "chat";
    return Boolean(meta.merged_replay) || !isEmpty;
  }

  #transcript(playable: boolean, style = ""): TemplateResult {
    return html`<an-viewer-transcript
      class="card flush ${style}"
      ?playable=${playable}
      .startedAt=${this.loaded.meta.created_at}
      .timeline=${this.timeline}
      .replay=${this.#replay}
      .assets=${this.#assets}
    ></an-viewer-transcript>`;
  }

  #footer(meta: RecordingMeta, comment: string): TemplateResult {
    const { own } = this.loaded;
    return html`${own ? nothing : html`<an-browser-recording name=${this.name} .assets=${this.#assets} .replay=${this.#replay}></an-browser-recording>`}
      ${comment === "" ? nothing : commentCard(comment)}
      ${recordingDetails(meta, this.timeline)}`;
  }

  #openSheet(): void {
    void import("../../components/recording-sheet.ts");
    this.sharing = true;
  }

  #change(change: { title: string } | { comment: string }): void {
    this.loaded = { ...this.loaded, ...change };
  }

  #shareDialog(): TemplateResult {
    const t = recordingSheetStrings();
    return dialog({
      open: this.sharing,
      title: isShareToken(this.name) ? t.guestTitle : t.title,
      body: html`<an-recording-sheet
        .recordingId=${this.name}
        @rename=${({ detail }: CustomEvent<string>) => this.#change({ title: detail })}
        @comment=${({ detail }: CustomEvent<string>) => this.#change({ comment: detail })}
      ></an-recording-sheet>`,
      onClose: () => {
        this.sharing = false;
      },
    });
  }

  /** Returns whether there is such a turn. */
  readonly #step = (by: -1 | 1): boolean => {
    const atMs = this.#replay.at.value;
    const to = adjacentTurn(this.timeline, atMs, by) ?? atMs;
    return to !== atMs && done(() => this.#replay.seek(to));
  };

  readonly #onKey = (event: KeyboardEvent): void => {
    if (!this.#hasPlayer) return;
    if (handleKey(event, this.#replay, this.#step)) event.preventDefault();
  };

  /** The server knows the waveform of its recordings. The browser's own is read while it is drawn. */
  async #loadWaveform(file: string): Promise<void> {
    const { own, timeline } = this.loaded;
    // A new name or comment replaces `loaded`, but not these.
    const isCurrent = () => this.loaded.own === own && this.loaded.timeline === timeline;
    this.shape = null;
    try {
      if (own) {
        await readWaveform(await this.#assets.stream(file), (shape) => {
          if (isCurrent()) this.#showWaveform(shape);
        });
      } else {
        const { user, model, per_second } = await recordingPeaks(this.name);
        this.#showWaveform(waveformOf([user, model], per_second));
      }
      if (this.shape && isCurrent()) {
        this.timeline = alignToSound(this.timeline, this.shape);
      }
    } catch (error) {
      showError(error, viewerStrings().waveFailed);
    }
  }

  #showWaveform(shape: Waveform): void {
    this.#replay.reach(shape.seconds * 1000);
    this.shape = shape;
    this.#skipSilence(shape);
  }

  #skipSilence(shape: Waveform): void {
    const soundMs = firstSoundMs(shape);
    if (soundMs !== null && soundMs > LEAD_MS) this.#link?.start(soundMs - BEFORE_SOUND_MS);
  }

  async #copyMoment(): Promise<void> {
    const t = viewerStrings();
    try {
      const hash = momentHash(this.#replay.at.value);
      await navigator.clipboard.writeText(new URL(hash, location.href).href);
      toast({ tone: "good", title: t.momentCopied });
    } catch (error) {
      showError(error, t.notCopied);
    }
  }

  async #saveOwn(): Promise<void> {
    const { meta, own } = this.loaded;
    for (const file of own?.files.values() ?? []) {
      await saveRecording(savedName(meta.app_type, meta.created_at), file);
    }
  }
}

/** The user's name for it, its first words, or its kind and time. */
function titleOf({ title, meta, timeline }: LoadState & { is: "open" }): string {
  const named = title || meta.first_words || firstWordsOf(timeline);
  return named || `${viewerStrings().kinds[meta.app_type]}, ${formatDateTime(meta.created_at)}`;
}

/** Of a conversation that only this browser has. */
function firstWordsOf({ lines }: Timeline): string {
  const said = lines.filter(({ role, text }) => role !== "system" && text.trim() !== "");
  const first = said.find(({ role }) => role === "user") ?? said[0];
  return first?.text.trim().slice(0, 120) ?? "";
}

function commentCard(comment: string): TemplateResult {
  return html`<section class="card stack tight">
    <h2 class="small strong">${recordingSheetStrings().comment.title}</h2>
    <p class="text">${comment}</p>
  </section>`;
}

/** A recording, loaded by its id or by a share token: `/s/{id}`. */
@customElement("an-viewer-page")
export class ViewerPage extends BaseElement {
  readonly #name = recordingName(sitePath());
  readonly #loader = new RecordingLoader(this.#name);
  readonly #loaded = new StoreController(this, this.#loader.state);
  #isOpen = false;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#loader.load();
  }

  override disconnectedCallback(): void {
    this.#loader.close();
    super.disconnectedCallback();
  }

  protected override willUpdate(): void {
    if (this.#loaded.value.is === "open" && !this.#isOpen) void buildPage();
    this.#isOpen = this.#loaded.value.is === "open";
  }

  protected override render(): TemplateResult {
    const loaded = this.#loaded.value;
    switch (loaded.is) {
      case "loading":
        return html`<div class="empty" role="status">
          <span class="spinner"></span>${common().loading}
        </div>`;
      case "closed":
        return unavailableNotice(this.#name, loaded.error, () => void this.#loader.load());
      case "live":
        return liveNotice(loaded.meta);
      case "open":
        return html`<an-recording name=${this.#name} .loaded=${loaded}></an-recording>`;
    }
  }
}

mount({
  help: async () => (await import("../help.ts")).pageHelp,
  bare: isShareToken(recordingName(sitePath())),
  title: () => windowTitle || viewerStrings().title,
  description: () => viewerStrings().description,
  content: () => html`<an-viewer-page></an-viewer-page>`,
});
