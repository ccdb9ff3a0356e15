import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { ref } from "lit/directives/ref.js";
import { type RecordingMeta, replayAudio } from "../../api/recordings.ts";
import type { ReplayPlayer } from "../../components/replay-player.ts";
import { formatClock } from "../../i18n/format.ts";
import { latest, type Timeline } from "../../replay/timeline.ts";
import { showError } from "../../shell/errors.ts";
import { BaseElement, type ChangedProperties } from "../../ui/base-element.ts";
import { PlayheadValue } from "./playhead-value.ts";
import type { Assets } from "./recording-loader.ts";
import { viewerStrings } from "./strings.ts";

/** The video, or the audio with the current camera frame. */
@customElement("an-replay-media")
export class ReplayMedia extends BaseElement {
  @property({ attribute: false }) meta!: RecordingMeta;
  @property({ attribute: false }) timeline!: Timeline;
  @property({ attribute: false }) replay!: ReplayPlayer;
  @property({ attribute: false }) assets!: Assets;

  @state() private source = "";

  readonly #frame = new PlayheadValue(
    this,
    () => this.replay,
    (atMs) => latest(this.timeline.frames, atMs) ?? this.timeline.frames[0] ?? null,
  );
  readonly #line = new PlayheadValue(
    this,
    () => this.replay,
    (atMs) =>
      this.timeline.lines.findLast((line) => line.atMs <= atMs && atMs < line.untilMs) ?? null,
  );

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (changed.has("meta") || changed.has("assets")) void this.#load();
  }

  protected override render(): TemplateResult {
    const { merged_replay_video: video } = this.meta;
    const hasFrames = this.timeline.frames.length > 0;
    if (video) return this.#framed(this.#video());
    return html`${hasFrames ? this.#framed(this.#still()) : nothing} ${this.#sound()}`;
  }

  #framed(frame: TemplateResult | typeof nothing): TemplateResult {
    const line = this.#line.value;
    return html`<figure class="picture-frame">
      ${frame}
      ${line && line.text !== "" ? html`<figcaption class=${line.role}>${line.text}</figcaption>` : nothing}
    </figure>`;
  }

  #video(): TemplateResult {
    return html`<video
      playsinline
      preload="metadata"
      aria-label=${viewerStrings().timeline.video}
      src=${this.source || nothing}
      ${ref(this.#attach)}
      @click=${() => this.replay.toggle()}
    ></video>`;
  }

  #still(): TemplateResult | typeof nothing {
    const frame = this.#frame.value;
    if (frame === null) return nothing;
    const alt = viewerStrings().timeline.frame(formatClock(frame.atMs / 1000));
    return html`<img src=${this.assets.source(frame.file)} alt=${alt} />`;
  }

  #sound(): TemplateResult | typeof nothing {
    if (!this.meta.merged_replay) return nothing;
    return html`<audio
      preload="metadata"
      src=${this.source || nothing}
      ${ref(this.#attach)}
    ></audio>`;
  }

  /** The same function for all renderings, so that it is called only when the element changes. */
  readonly #attach = (element: globalThis.Element | undefined): void => {
    this.replay.attach(element instanceof HTMLMediaElement ? element : null);
  };

  async #load(): Promise<void> {
    const file = this.meta.merged_replay_video ?? replayAudio(this.meta);
    if (!file) return;
    try {
      this.source = await this.assets.url(file);
    } catch (error) {
      showError(error);
    }
  }
}
