import { siteUrl } from "../api/site.ts";
import "./own-conversations.ts";
import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { ref } from "lit/directives/ref.js";
import { fetchApi, keyFor } from "../api/http.ts";
import { assetPath, recordingMeta, replayAudio } from "../api/recordings.ts";
import { STEREO_FORMAT, wavLengthMs } from "../audio/stereo-recorder.ts";
import { defineStrings, formatTime } from "../i18n/language.ts";
import { savedName, saveRecording, uploadRecording } from "../session/browser-recording.ts";
import { showError, UserTask } from "../shell/errors.ts";
import { ownConversations } from "../storage/conversations.ts";
import {
  abandonedRecordings,
  deleteKept,
  type KeptRecording,
  loadKept,
} from "../storage/kept-recordings.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import { dialog } from "../ui/dialog.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { toast } from "../ui/toasts.ts";
import { recordingSheetStrings } from "./recording-sheet-strings.ts";
import { ReplayPlayer } from "./replay-player.ts";
import "./recordings.css";

const recordingActionsStrings = defineStrings(
  {
    title: "Recordings",
    replay: "Replay",
    audio: "Audio",
    audioHint: "Both voices: you on the left, the model on the right.",
    video: "Video",
    videoHint: "Video with both voices.",
    save: "Save",
    saveWhat: (what: string) => `Save: ${what}`,
    upload: "Upload",
    uploadWhat: (what: string) => `Upload: ${what}`,
    uploaded: "Uploaded to the recording",
    notUploaded: "Upload failed",
    server: "Server recording",
    serverHint: "People with the link and the server's administrators can open it.",
    nothing: "The server did not record this session.",
    open: "Open",
    share: "Share",
    kept: "Unsaved recording",
    keptHint: "This browser keeps it for a day",
    discard: "Delete",
  },
  {
    title: "录制",
    replay: "回放",
    audio: "音频",
    audioHint: "双方的声音：左声道是您，右声道是模型。",
    video: "视频",
    videoHint: "视频和双方的声音。",
    save: "保存",
    saveWhat: (what) => `保存：${what}`,
    upload: "上传",
    uploadWhat: (what) => `上传：${what}`,
    uploaded: "已上传到录制",
    notUploaded: "上传失败",
    server: "服务器录制",
    serverHint: "拥有链接的人和服务器管理员可以打开。",
    nothing: "服务器没有录制此会话。",
    open: "打开",
    share: "分享",
    kept: "未保存的录制",
    keptHint: "此浏览器会保留一天",
    discard: "删除",
  },
);

const POLL_MS = 1000;
const PATIENCE_MS = 60_000;

/**
 * Plays the recording of this browser at once. After the first start it continues with the recording
 * of the server, at the same position, as soon as that is merged.
 *
 * WebKitGTK can stop for ever if an element is removed or gets another source while it loads a blob.
 * Therefore it loads nothing before the first start, and keeps its source until it plays.
 */
@customElement("an-instant-replay")
export class InstantReplay extends BaseElement {
  readonly #replay = new ReplayPlayer(0);
  #timer = 0;
  /** Asks for the recording of the server, or has it. */
  #awaitsServer = false;
  #ownUrl = "";

  /** From `StereoRecorder`. */
  @property({ attribute: false }) audio!: Blob;
  /** Null if the server did not record. */
  @property({ attribute: false }) recordingId: string | null = null;

  @state() private source = "";

  override disconnectedCallback(): void {
    this.#close();
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (!changed.has("audio")) return;
    this.#close();
    this.#ownUrl = URL.createObjectURL(this.audio);
    this.source = this.#ownUrl;
    this.#replay.resize(wavLengthMs(this.audio, STEREO_FORMAT));
  }

  protected override render(): TemplateResult | typeof nothing {
    return html`<div role="group" aria-label=${recordingActionsStrings().replay}>
      <audio
        preload="none"
        src=${this.source}
        ${ref(this.#attach)}
      ></audio>
      <an-player-controls class="row still" .replay=${this.#replay}></an-player-controls>
    </div>`;
  }

  /** The same function for all renderings, so that it is called only when the element changes. */
  readonly #attach = (element: globalThis.Element | undefined): void => {
    const audio = element instanceof HTMLAudioElement ? element : null;
    this.#replay.attach(audio);
    audio?.addEventListener("durationchange", () => {
      if (Number.isFinite(audio.duration)) this.#replay.resize(audio.duration * 1000);
    });
    audio?.addEventListener("playing", () => {
      if (this.#awaitsServer) return;
      this.#awaitsServer = true;
      void this.#awaitServer(performance.now() + PATIENCE_MS);
    });
  };

  async #awaitServer(untilMs: number): Promise<void> {
    const { recordingId, audio } = this;
    if (recordingId === null || performance.now() > untilMs) return;
    const meta = await recordingMeta(recordingId).catch(() => null);
    const file = meta && replayAudio(meta);
    const source = file ? await playable(assetPath(recordingId, file)).catch(() => null) : null;
    if (!this.isConnected || audio !== this.audio) {
      URL.revokeObjectURL(source ?? ""); // closed, or another recording
      return;
    }
    if (source !== null) {
      this.source = source;
    } else if (file || meta === null || meta.replay === "merging" || meta.replay == null) {
      this.#timer = window.setTimeout(() => void this.#awaitServer(untilMs), POLL_MS);
    }
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#awaitsServer = false;
    URL.revokeObjectURL(this.#ownUrl);
    URL.revokeObjectURL(this.source); // of the server's recording, if it was fetched
  }
}

/** An address for media elements, which cannot send a key. */
async function playable(path: string): Promise<string> {
  if (keyFor("client") === null) return siteUrl(path);
  return URL.createObjectURL(await (await fetchApi(path)).blob());
}

/** Actions after a session: save browser recordings, open and share the server recording. */
@customElement("an-recording-actions")
export class RecordingActions extends BaseElement {
  readonly #task = new UserTask(this);

  /** Null if the server did not record. */
  @property({ attribute: false }) recordingId: string | null = null;
  @property({ attribute: false }) audio: Blob | null = null;
  @property({ attribute: false }) video: Blob | null = null;
  /** Part of the names of saved files, see `savedName`. */
  @property() namePrefix = "conversation";

  @state() private sharing = false;
  @state() private uploaded: readonly Blob[] = [];

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (!changed.has("recordingId")) return;
    this.sharing = false;
    this.uploaded = [];
  }

  protected override render(): TemplateResult {
    const t = recordingActionsStrings();
    return html`<section class="card" aria-label=${t.title}>
      ${this.audio ? html`<an-instant-replay .audio=${this.audio} .recordingId=${this.recordingId}></an-instant-replay>` : nothing}
      ${this.audio ? this.#take("voice", t.audio, t.audioHint, this.audio) : nothing}
      ${this.video ? this.#take("camera", t.video, t.videoHint, this.video) : nothing}
      ${this.recordingId === null ? this.#nothing() : this.#server(this.recordingId)}
    </section>
    ${this.recordingId === null ? nothing : this.#links(this.recordingId)}`;
  }

  #take(sign: IconName, title: string, hint: string, take: Blob): TemplateResult {
    const t = recordingActionsStrings();
    const done = this.uploaded.includes(take);
    return row(
      sign,
      title,
      { hint },
      html`<button
          class="button small"
          aria-label=${t.saveWhat(title)}
          @click=${() => void saveRecording(savedName(this.namePrefix), take)}
        >
          ${icon("download")} ${t.save}
        </button>
        ${
          this.recordingId === null
            ? nothing
            : html`<button
                class="button small square"
                title=${done ? t.uploaded : t.upload}
                aria-label=${done ? t.uploaded : t.uploadWhat(title)}
                ${inactive(this.#task.isRunning || done)}
                @click=${() => this.#upload(take)}
              >
                ${icon(done ? "check" : "upload")}
              </button>`
        }`,
    );
  }

  #nothing(): TemplateResult {
    return html`<p class="small soft">${recordingActionsStrings().nothing}</p>`;
  }

  #server(recordingId: string): TemplateResult {
    const t = recordingActionsStrings();
    const url = siteUrl(`/s/${encodeURIComponent(recordingId)}`);
    return row(
      "record",
      t.server,
      { hint: t.serverHint, shown: true },
      html`<a class="button small" href=${url} target="_blank" rel="noopener">${t.open}</a>
        <button class="button small" @click=${() => this.#share()}>${icon("share")} ${t.share}</button>`,
    );
  }

  #links(recordingId: string): TemplateResult {
    return dialog({
      open: this.sharing,
      title: recordingSheetStrings().title,
      body: html`<an-recording-sheet .recordingId=${recordingId}></an-recording-sheet>`,
      onClose: () => {
        this.sharing = false;
      },
    });
  }

  #share(): void {
    void import("./recording-sheet.ts");
    this.sharing = true;
  }

  async #upload(take: Blob): Promise<void> {
    const { recordingId } = this;
    if (recordingId === null) return;
    await this.#task.run(async () => {
      await uploadRecording(recordingId, take);
      this.uploaded = [...this.uploaded, take];
      toast({ tone: "good", title: recordingActionsStrings().uploaded });
    }, recordingActionsStrings().notUploaded);
  }
}

function row(
  sign: IconName,
  title: string,
  { hint, shown = false }: { hint: string; shown?: boolean },
  actions: TemplateResult,
): TemplateResult {
  return html`<div class="recording-item ${sign}">
    ${icon(sign)}
    <div class="grow" title=${hint}>
      <p class="small strong">${title}</p>
      ${shown ? html`<p class="tiny soft">${hint}</p>` : nothing}
    </div>
    <div class="row tight still">${actions}</div>
  </div>`;
}

/**
 * Offers the newest recording of this browser that was not saved before its page was closed, and the
 * list of this browser's conversations.
 */
@customElement("an-kept-recordings")
export class KeptRecordings extends BaseElement {
  @state() private kept: readonly KeptRecording[] = [];
  @state() private hasConversations = false;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#load().catch(() => undefined); // a browser without a database keeps nothing
  }

  protected override render(): TemplateResult {
    const [newest] = this.kept;
    return html`${newest ? this.#offer(newest) : nothing}
    ${this.hasConversations ? html`<an-own-conversations></an-own-conversations>` : nothing}`;
  }

  #offer(newest: KeptRecording): TemplateResult {
    const t = recordingActionsStrings();
    const name = newest.type.startsWith("video") ? t.video : t.audio;
    return html`<div class="callout" role="region" aria-label=${t.kept}>
      ${icon("record")}
      <div class="grow">
        <p class="strong">${t.kept}</p>
        <p class="tiny soft">
          ${name} · ${formatTime(newest.startedAt)}<span class="hint"> · ${t.keptHint}</span>
        </p>
      </div>
      <div class="row tight still">
        <button class="button small save" title=${t.save} @click=${() => this.#save(newest)}>
          ${icon("download")} <span>${t.save}</span>
        </button>
        <button
          class="button small quiet square"
          title=${t.discard}
          aria-label=${t.discard}
          @click=${() => this.#remove(newest)}
        >
          ${icon("trash")}
        </button>
      </div>
    </div>`;
  }

  async #load(): Promise<void> {
    const [all, kept] = await Promise.all([ownConversations(), abandonedRecordings()]);
    // Together, so that the page moves once.
    this.hasConversations = all.length > 0;
    this.kept = kept;
  }

  async #save(one: KeptRecording): Promise<void> {
    try {
      await saveRecording(savedName("conversation", one.startedAt), await loadKept(one));
      this.#drop(one);
    } catch (error) {
      showError(error);
    }
  }

  #remove(one: KeptRecording): void {
    deleteKept(one.id).catch((error: unknown) => showError(error));
    this.#drop(one);
  }

  #drop(one: KeptRecording): void {
    this.kept = this.kept.filter((other) => other !== one);
  }
}
