import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import type { Meta } from "../../api/recordings.ts";
import { readShape, type WaveShape } from "../../audio/wave-shape.ts";
import "../../components/share-links.ts";
import { clock, moment } from "../../i18n/format.ts";
import { tellProblem } from "../../shell/problem.ts";
import { Watch } from "../../state/store.ts";
import { dialog } from "../../ui/dialog.ts";
import { type Changed, Element } from "../../ui/element.ts";
import { icon } from "../../ui/icon.ts";
import { about } from "./about.ts";
import { Assets, isShareToken } from "./assets.ts";
import "./comment-box.ts";
import "./costs.ts";
import { onKey } from "./keys.ts";
import { notices } from "./notices.ts";
import type { Opened } from "./opened.ts";
import { Replay, type ReplayState } from "./replay.ts";
import "./own-recording.ts";
import "./said.ts";
import { saveArchive } from "./save-archive.ts";
import { turnBeside } from "./score.ts";
import "./stage.ts";
import "./time-line.ts";
import "./transport.ts";
import { words } from "./words.ts";

/** An opened recording: its player, time line, words, and what can be done with it. */
@customElement("an-recording")
export class RecordingView extends Element {
  #replay = new Replay(0);
  #assets = new Assets("");
  #state: Watch<ReplayState> | null = null;

  /** Its id, or the token of a share link. */
  @property() name = "";
  @property({ attribute: false }) opened!: Opened & { is: "open" };

  @state() private shape: WaveShape | null = null;
  @state() private shares = false;
  @state() private packs = false;

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("keydown", this.#onKey);
  }

  override disconnectedCallback(): void {
    document.removeEventListener("keydown", this.#onKey);
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: Changed<this>): void {
    if (changed.has("name")) this.#assets = new Assets(this.name);
    if (!changed.has("opened")) return;
    if (this.#state === null) {
      this.#replay = new Replay(this.opened.score.lengthMs);
      this.#state = new Watch(this, this.#replay.state);
    }
    const file = this.opened.meta.merged_replay;
    if (file && this.shape === null) void this.#readShape(file);
  }

  protected override render(): TemplateResult {
    const { meta, score, comment } = this.opened;
    const isShared = isShareToken(this.name);
    const isChat = meta.app_type === "chat";
    const hasReplay = Boolean(meta.merged_replay);
    return html`${this.#head(meta, isShared)}
      ${notices(meta, this.#state?.value.broken ?? false)}
      <div class="split">
        ${this.#player(
          meta,
          score.costs.some(({ total }) => total > 0),
        )}
        ${isChat ? this.#said(!hasReplay, "wide") : this.#said(!hasReplay, "beside")}
        <section class="stack ${isChat ? "beside" : ""}">${this.#foot(meta, isShared, comment)}</section>
      </div>
      ${this.#shareDialog()}`;
  }

  #head(meta: Meta, isShared: boolean): TemplateResult {
    const say = words();
    const length = meta.duration_s ?? this.#replay.lengthMs / 1000;
    const count =
      meta.chunks != null
        ? say.units(meta.chunks)
        : meta.turns != null
          ? say.turns(meta.turns)
          : "";
    return html`<div class="page-head">
      <div>
        <h1>${say.kinds[meta.app_type]}</h1>
        <p class="row tight small">
          <span>${moment(meta.created_at)}</span>
          <span class="number">${clock(length)}</span>
          ${count === "" ? nothing : html`<span>${count}</span>`}
          ${meta.state === "interrupted" ? html`<span class="badge caution">${say.interrupted}</span>` : nothing}
          ${isShared ? html`<span class="badge accent">${say.shared}</span>` : nothing}
        </p>
      </div>
      <div class="row tight">
        <button class="button" ?disabled=${this.packs} @click=${() => this.#download()}>
          ${this.packs ? html`<span class="spinner"></span>` : icon("download")}
          ${this.packs ? say.downloading : say.download}
        </button>
        ${
          isShared
            ? nothing
            : html`<button
                class="button primary"
                @click=${() => {
                  this.shares = true;
                }}
              >
                ${icon("share")} ${say.share}
              </button>`
        }
      </div>
    </div>`;
  }

  #player(meta: Meta, hasCosts: boolean): TemplateResult | typeof nothing {
    const { score } = this.opened;
    const isEmpty = score.lengthMs === 0 || meta.app_type === "chat";
    if (!meta.merged_replay && isEmpty) return nothing;
    return html`<section class="card flush player" aria-label=${words().player.label}>
      <an-stage .meta=${meta} .score=${score} .replay=${this.#replay} .assets=${this.#assets}></an-stage>
      ${
        meta.merged_replay
          ? html`<an-transport class="row still" .replay=${this.#replay} .step=${this.#step}></an-transport>`
          : nothing
      }
      <an-time-line
        .score=${score}
        .replay=${this.#replay}
        .assets=${this.#assets}
        .shape=${this.shape}
      ></an-time-line>
      ${hasCosts ? html`<an-costs .score=${score} .replay=${this.#replay}></an-costs>` : nothing}
    </section>`;
  }

  #said(sounds: boolean, style = ""): TemplateResult {
    return html`<an-said
      class="card flush ${style}"
      ?sounds=${sounds}
      .score=${this.opened.score}
      .replay=${this.#replay}
      .assets=${this.#assets}
    ></an-said>`;
  }

  #foot(meta: Meta, isShared: boolean, comment: string): TemplateResult {
    return html`<an-own-recording name=${this.name} .assets=${this.#assets} .replay=${this.#replay}></an-own-recording>
      <an-comment-box name=${this.name} comment=${comment} ?fixed=${isShared}></an-comment-box>
      ${about(meta, this.opened.score)}`;
  }

  #shareDialog(): TemplateResult {
    return dialog({
      open: this.shares,
      title: words().share,
      body: html`<an-share-links .recordingId=${this.name}></an-share-links>`,
      onClose: () => {
        this.shares = false;
      },
    });
  }

  readonly #step = (by: -1 | 1): void => {
    const to = turnBeside(this.opened.score, this.#replay.at.value, by);
    if (to !== null) this.#replay.seek(to);
  };

  readonly #onKey = (event: KeyboardEvent): void => {
    if (onKey(event, this.#replay, this.#step)) event.preventDefault();
  };

  async #readShape(file: string): Promise<void> {
    try {
      await readShape(await this.#assets.stream(file), (shape) => {
        this.#replay.reach(shape.seconds * 1000);
        this.shape = shape;
      });
    } catch (error) {
      tellProblem(error, words().waveFailed);
    }
  }

  async #download(): Promise<void> {
    this.packs = true;
    try {
      await saveArchive(this.name, this.#assets);
    } catch (error) {
      tellProblem(error);
    } finally {
      this.packs = false;
    }
  }
}
