import { html, type nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { ref } from "lit/directives/ref.js";
import { fetchApi } from "../api/http.ts";
import { keyFor } from "../api/key.ts";
import { assetPath, recordingMeta, replayAudio } from "../api/recordings.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import "./player-controls.ts";
import { recordingActionsStrings } from "./recording-actions-strings.ts";
import { ReplayPlayer } from "./replay-player.ts";

const POLL_MS = 1000;
const PATIENCE_MS = 60_000;

/**
 * Plays the recording of this browser at once. After the first start it continues with the recording
 * of the server, at the same position, as soon as that is merged.
 */
@customElement("an-instant-replay")
export class InstantReplay extends BaseElement {
  readonly #replay = new ReplayPlayer(0);
  #unsubscribe: () => void = () => undefined;
  #timer = 0;
  #ownUrl = "";

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
    this.#unsubscribe = this.#replay.state.subscribe(({ playing }) => {
      if (playing && this.#timer === 0) void this.#awaitServer(performance.now() + PATIENCE_MS);
    });
  }

  protected override render(): TemplateResult | typeof nothing {
    return html`<div role="group" aria-label=${recordingActionsStrings().replay}>
      <audio
        preload="metadata"
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
  };

  async #awaitServer(untilMs: number): Promise<void> {
    const { recordingId } = this;
    if (recordingId === null || performance.now() > untilMs) return;
    const meta = await recordingMeta(recordingId).catch(() => null);
    const file = meta && replayAudio(meta);
    if (file) {
      this.source = await playable(assetPath(recordingId, file));
    } else if (meta === null || meta.replay === "merging" || meta.replay == null) {
      this.#timer = window.setTimeout(() => void this.#awaitServer(untilMs), POLL_MS);
    }
  }

  #close(): void {
    this.#unsubscribe();
    clearTimeout(this.#timer);
    this.#timer = 0;
    URL.revokeObjectURL(this.#ownUrl);
  }
}

/** An address for media elements, which cannot send a key. */
async function playable(path: string): Promise<string> {
  if (keyFor("client") === null) return path;
  return URL.createObjectURL(await (await fetchApi(path)).blob());
}
