import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, query, state } from "lit/decorators.js";
import { type BrowserUpload, browserUpload } from "../../api/recordings.ts";
import type { ReplayPlayer } from "../../components/replay-player.ts";
import { formatBytes } from "../../i18n/format.ts";
import { defineStrings } from "../../i18n/language.ts";
import { saveUrl } from "../../session/browser-recording.ts";
import { UserTask } from "../../shell/errors.ts";
import { BaseElement, type ChangedProperties } from "../../ui/base-element.ts";
import { icon } from "../../ui/icon.ts";
import type { Assets } from "./recording-loader.ts";

/**
 * The recording that the user's browser uploaded, if any. It has its own clock and does not follow
 * the timeline. Only one of the two recordings plays at a time.
 */
@customElement("an-browser-recording")
export class BrowserRecording extends BaseElement {
  readonly #task = new UserTask(this);
  #unsubscribe: () => void = () => undefined;

  @property() name = "";
  @property({ attribute: false }) assets!: Assets;
  @property({ attribute: false }) replay!: ReplayPlayer;

  @state() private upload: BrowserUpload | null = null;
  /** Empty until playback starts, because the whole file may have to be fetched. */
  @state() private source = "";
  @state() private seen = false;
  @state() private broken = false;

  @query("video") private readonly media!: HTMLVideoElement | null;

  override disconnectedCallback(): void {
    this.#unsubscribe();
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (changed.has("name")) void this.#look();
    if (!changed.has("replay")) return;
    this.#unsubscribe();
    this.#unsubscribe = this.replay.state.subscribe(
      ({ playing }) => playing && this.media?.pause(),
    );
  }

  protected override render(): TemplateResult | typeof nothing {
    const { upload } = this;
    if (upload === null) return nothing;
    const t = strings();
    return html`<section class="card stack" aria-label=${t.title}>
      <div class="row still">
        <div class="grow">
          <h2 class="small strong">${t.title}</h2>
          <p class="small soft">${this.broken ? t.broken : t.why}</p>
        </div>
        ${this.source === "" ? this.#playButton() : nothing}
        <button
          class="button square"
          title="${t.download} (${formatBytes(upload.size_bytes)})"
          aria-label=${t.download}
          ?disabled=${this.#task.isRunning}
          @click=${() => this.#task.run(() => this.#save(upload.path))}
        >
          ${icon("download")}
        </button>
      </div>
      ${this.source === "" || this.broken ? nothing : this.#player()}
    </section>`;
  }

  #playButton(): TemplateResult {
    return html`<button
      class="button square"
      aria-label=${strings().play}
      ?disabled=${this.#task.isRunning}
      @click=${() => this.#task.run(() => this.#open())}
    >
      ${this.#task.isRunning ? html`<span class="spinner"></span>` : icon("play")}
    </button>`;
  }

  #player(): TemplateResult {
    return html`<video
      class=${this.seen ? "" : "playing"}
      controls
      autoplay
      playsinline
      aria-label=${strings().title}
      src=${this.source}
      @loadedmetadata=${({ target }: Event) => {
        this.seen = (target as HTMLVideoElement).videoWidth > 0;
      }}
      @play=${() => this.replay.pause()}
      @error=${() => {
        this.broken = true;
      }}
    ></video>`;
  }

  async #open(): Promise<void> {
    if (this.upload) this.source = await this.assets.url(this.upload.path);
  }

  async #save(path: string): Promise<void> {
    saveUrl(path, await this.assets.url(path));
  }

  async #look(): Promise<void> {
    await this.#task.run(async () => {
      this.upload = await browserUpload(this.name);
    });
  }
}

const strings = defineStrings(
  {
    title: "Browser recording",
    why: "Recorded in the user's browser, as the user heard it.",
    play: "Play browser recording",
    download: "Download browser recording",
    broken: "Your browser cannot play this file. Download it and open it in another player.",
  },
  {
    title: "浏览器录制",
    why: "在用户的浏览器中录制，与用户听到的一致。",
    play: "播放浏览器录制",
    download: "下载浏览器录制",
    broken: "浏览器无法播放此文件。请下载后用其他播放器打开。",
  },
);
