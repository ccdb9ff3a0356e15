import { html, svg, type TemplateResult } from "lit";
import { customElement, property, query, state } from "lit/decorators.js";
import type { Waveform } from "../../audio/waveform.ts";
import type { ReplayPlayer } from "../../components/replay-player.ts";
import type { Store } from "../../state/store.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { waveformPath } from "./lanes.ts";
import { viewerStrings } from "./strings.ts";

const HEIGHT = 44;

/** The part of a recording that the timeline shows, as shares of its length. */
export interface VisiblePart {
  readonly from: number;
  readonly until: number;
}

/** The whole recording in one strip, with the part that the timeline below shows. A click seeks. */
@customElement("an-overview")
export class Overview extends BaseElement {
  #unsubscribes: (() => void)[] = [];
  #sizes = new ResizeObserver(([entry]) => {
    this.room = entry?.contentRect.width ?? 0;
  });

  @property({ attribute: false }) replay!: ReplayPlayer;
  @property({ attribute: false }) shape: Waveform | null = null;
  @property({ attribute: false }) visible!: Store<VisiblePart>;

  @state() private room = 0;

  @query(".window") private readonly window!: HTMLElement;
  @query(".whole-playhead") private readonly playhead!: HTMLElement;

  override connectedCallback(): void {
    super.connectedCallback();
    const stores = [this.replay.at, this.visible];
    this.#unsubscribes = stores.map((store) => store.subscribe(() => this.#place()));
    this.#sizes.observe(this);
  }

  override disconnectedCallback(): void {
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
    this.#sizes.disconnect();
    super.disconnectedCallback();
  }

  protected override updated(): void {
    this.#place();
  }

  protected override render(): TemplateResult {
    const pxPerS = this.room / Math.max(1, this.replay.lengthMs / 1000);
    const { shape } = this;
    return html`<div
      class="strip"
      role="img"
      aria-label=${viewerStrings().timeline.overview}
      @pointerdown=${this.#onPointer}
      @pointermove=${this.#onPointer}
    >
      <svg width=${this.room} height=${HEIGHT} aria-hidden="true">
        ${(["user", "model"] as const).map((side, channel) =>
          shape && this.room > 0
            ? svg`<path class="wave ${side}" d=${waveformPath(shape, channel, {
                pxPerS,
                middle: HEIGHT * (channel + 0.5) * 0.5,
                half: HEIGHT / 4 - 2,
              })} />`
            : "",
        )}
      </svg>
      <div class="window"></div>
      <div class="whole-playhead"></div>
    </div>`;
  }

  #onPointer(event: PointerEvent): void {
    if (event.type === "pointermove" && event.buttons !== 1) return;
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    this.replay.seek(((event.clientX - box.left) / box.width) * this.replay.lengthMs);
  }

  /** Without rendering, because the playhead moves with every animation frame. */
  #place(): void {
    if (!this.hasUpdated) return;
    const { from, until } = this.visible.value;
    const at = this.replay.at.value / Math.max(1, this.replay.lengthMs);
    this.playhead.style.translate = `${at * this.room}px`;
    this.window.style.left = `${100 * from}%`;
    this.window.style.width = `${100 * (until - from)}%`;
    this.window.hidden = from <= 0 && until >= 1;
  }
}
