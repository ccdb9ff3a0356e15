import {
  html,
  nothing,
  type ReactiveController,
  type ReactiveControllerHost,
  type TemplateResult,
} from "lit";
import { customElement, property, query, state } from "lit/decorators.js";
import { ref } from "lit/directives/ref.js";
import type { RecordingMeta } from "../../api/answers.ts";
import { type BrowserUpload, browserUpload, replayAudio } from "../../api/recordings.ts";
import type { ReplayPlayer } from "../../components/replay-player.ts";
import { defineStrings, formatBytes, formatClock } from "../../i18n/language.ts";
import { latest, type Timeline } from "../../replay/timeline.ts";
import { saveUrl } from "../../session/browser-recording.ts";
import { showError, UserTask } from "../../shell/errors.ts";
import { BaseElement, type ChangedProperties } from "../../ui/base-element.ts";
import { icon } from "../../ui/icon.ts";
import { inactive } from "../../ui/inactive.ts";
import type { Assets } from "./recording-loader.ts";
import { viewerStrings } from "./strings.ts";

/** The value at the playhead. Renders its host only when the value changes. */
export class PlayheadValue<T> implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #replay: () => ReplayPlayer;
  readonly #pick: (atMs: number) => T;
  #unsubscribe: () => void = () => undefined;
  #value: T | null = null;

  /** `pick` must return the same object for the same value. */
  constructor(host: ReactiveControllerHost, replay: () => ReplayPlayer, pick: (atMs: number) => T) {
    this.#host = host;
    this.#replay = replay;
    this.#pick = pick;
    host.addController(this);
  }

  get value(): T {
    return this.#pick(this.#replay().at.value);
  }

  hostConnected(): void {
    this.#value = this.value;
    this.#unsubscribe = this.#replay().at.subscribe((atMs) => {
      const value = this.#pick(atMs);
      if (Object.is(value, this.#value)) return;
      this.#value = value;
      this.#host.requestUpdate();
    });
  }

  hostDisconnected(): void {
    this.#unsubscribe();
  }
}

/** The recording id or share token in the path of a page, `/s/{name}`. Empty if it has none. */
export function recordingName(path: string): string {
  const segment = path.split("/")[2] ?? "";
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // the server has no recording of this name
  }
}

const SETTLED_MS = 400; // browsers limit how often a page changes its address

/** The position in an address that ends with `#t=12.5`, in milliseconds. Null if it has none. */
export function linkedMs(hash: string): number | null {
  const found = /^#t=(\d+(?:\.\d+)?)$/.exec(hash);
  return found ? Number(found[1]) * 1000 : null;
}

/** The address of a position, `#t=12.5`. */
export function momentHash(atMs: number): string {
  return `#t=${Number((atMs / 1000).toFixed(1))}`;
}

/**
 * Keeps the position of a paused player in the address of the page, and seeks when the user changes
 * the address.
 */
export class DeepLink {
  readonly #replay: ReplayPlayer;
  readonly #unsubscribes: readonly (() => void)[];
  #timer = 0;
  #known: number;

  constructor(replay: ReplayPlayer) {
    this.#replay = replay;
    const linked = linkedMs(location.hash);
    if (linked !== null) replay.seek(linked);
    this.#known = replay.at.value;
    addEventListener("hashchange", this.#follow);
    this.#unsubscribes = [replay.at, replay.state].map((store) =>
      store.subscribe(() => this.#schedule()),
    );
  }

  /** Moves without changing the address or loading. Does nothing if the position is known already. */
  start(atMs: number): void {
    if (this.#known > 0 || this.#replay.at.value > 0) return;
    this.#known = atMs;
    this.#replay.cue(atMs);
  }

  close(): void {
    clearTimeout(this.#timer);
    removeEventListener("hashchange", this.#follow);
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
  }

  readonly #follow = (): void => {
    const linked = linkedMs(location.hash);
    if (linked !== null) this.#replay.seek(linked);
  };

  #schedule(): void {
    clearTimeout(this.#timer);
    if (this.#replay.state.value.playing) return;
    this.#timer = window.setTimeout(() => this.#write(), SETTLED_MS);
  }

  #write(): void {
    const at = this.#replay.at.value;
    if (Math.abs(at - this.#known) < 50) return;
    this.#known = at;
    history.replaceState(history.state, "", momentHash(at));
  }
}

/** The video, or the audio with the current camera frame. */
@customElement("an-replay-media")
export class ReplayMedia extends BaseElement {
  @property({ attribute: false }) meta!: RecordingMeta;
  @property({ attribute: false }) timeline!: Timeline;
  @property({ attribute: false }) replay!: ReplayPlayer;
  @property({ attribute: false }) assets!: Assets;

  @state() private source = "";

  #loading: { readonly file: string; readonly assets: Assets } | null = null;
  /** The files of `source`. */
  #shown: Assets | null = null;

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
    const first = this.timeline.frames[0];
    return html`<video
      playsinline
      preload="none"
      poster=${first ? this.assets.source(first.file) : nothing}
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
      preload="none"
      src=${this.source || nothing}
      ${ref(this.#attach)}
    ></audio>`;
  }

  /** The same function for all renderings, so that it is called only when the element changes. */
  readonly #attach = (element: globalThis.Element | undefined): void => {
    this.replay.attach(element instanceof HTMLMediaElement ? element : null);
  };

  get #file(): string | null {
    return this.meta.merged_replay_video ?? replayAudio(this.meta);
  }

  async #show(source: string, assets: Assets): Promise<void> {
    const before = this.#shown;
    this.#shown = assets;
    this.source = source;
    await this.updateComplete;
    if (before !== assets) before?.close(); // it may have played until now
  }

  /** A file that has to be fetched as a whole waits until the user wants to play. */
  async #load(): Promise<void> {
    const { assets } = this;
    const file = this.#file;
    if (!file || (file === this.#loading?.file && assets === this.#loading.assets)) return;
    const loading = { file, assets };
    this.#loading = loading;
    while (loading === this.#loading) {
      if (assets.isFetched(file)) await this.replay.untilWanted();
      try {
        const source = await assets.url(file);
        if (loading === this.#loading) await this.#show(source, assets);
        return;
      } catch (error) {
        if (loading !== this.#loading) return;
        showError(error);
        this.replay.fetchFailed();
      }
    }
  }
}

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
          ${inactive(this.#task.isRunning)}
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
      ${inactive(this.#task.isRunning)}
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
