import { html, nothing, svg, type TemplateResult } from "lit";
import { customElement, property, query, state } from "lit/decorators.js";
import type { Waveform } from "../../audio/waveform.ts";
import type { ReplayPlayer } from "../../components/replay-player.ts";
import { formatClock } from "../../i18n/language.ts";
import type { SpeakerRole, SpokenLine, Timeline } from "../../replay/timeline.ts";
import { Store } from "../../state/store.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { icon } from "../../ui/icon.ts";
import { inactive } from "../../ui/inactive.ts";
import {
  costShapes,
  eventShapes,
  type Lanes,
  lanesOf,
  segmentShapes,
  tickS,
  waveformPath,
} from "./lanes.ts";
import type { Assets } from "./recording-loader.ts";
import { viewerStrings } from "./strings.ts";
import "./page.css";

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

const MOST_PX_PER_S = 160;
const WIDEST_PX = 24_000;
const MOST_THUMBS = 120;
const LEAST_WORDS_PX = 28;
const SIDES: readonly ("user" | "model")[] = ["user", "model"];

/** The timeline: overview, waveforms, speaker segments, transcript, frames and costs. A click seeks. */
@customElement("an-timeline")
export class TimelineView extends BaseElement {
  #unsubscribe: () => void = () => undefined;
  #paths: readonly string[] = [];
  readonly #visible = new Store<VisiblePart>({ from: 0, until: 1 });
  #sizes = new ResizeObserver(([entry]) => {
    this.room = entry?.contentRect.width ?? 0;
  });

  @property({ attribute: false }) timeline!: Timeline;
  @property({ attribute: false }) replay!: ReplayPlayer;
  @property({ attribute: false }) assets!: Assets;
  /** Null if there is none. */
  @property({ attribute: false }) shape: Waveform | null = null;

  @state() private room = 0;
  /** Pixels per second. Null shows the whole recording. */
  @state() private zoom: number | null = null;

  @query(".scroller") private readonly scroller!: HTMLElement;
  @query(".playhead") private readonly playhead!: HTMLElement;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#unsubscribe = this.replay.at.subscribe(() => this.#place());
  }

  override disconnectedCallback(): void {
    this.#unsubscribe();
    this.#sizes.disconnect();
    super.disconnectedCallback();
  }

  protected override firstUpdated(): void {
    this.#sizes.observe(this.scroller);
  }

  protected override willUpdate(changed: ReadonlyMap<PropertyKey, unknown>): void {
    if (!["shape", "room", "zoom", "timeline"].some((name) => changed.has(name))) return;
    const { shape, lanes } = this;
    const half = lanes.wave / 2 - 3;
    this.#paths = SIDES.map((side, channel) =>
      shape
        ? waveformPath(shape, channel, {
            pxPerS: this.pxPerS,
            middle: lanes[side] + half + 3,
            half,
          })
        : "",
    );
  }

  protected override updated(): void {
    this.#place();
  }

  private get lanes(): Lanes {
    return lanesOf(this.timeline);
  }

  private get fit(): number {
    return Math.max(1, this.room) / Math.max(1, this.replay.lengthMs / 1000);
  }

  private get most(): number {
    const widest = (WIDEST_PX * 1000) / Math.max(1, this.replay.lengthMs);
    return Math.max(this.fit, Math.min(MOST_PX_PER_S, widest));
  }

  private get pxPerS(): number {
    return Math.max(this.fit, Math.min(this.most, this.zoom ?? 0));
  }

  protected override render(): TemplateResult {
    const { lanes, pxPerS } = this;
    const width = Math.ceil((this.replay.lengthMs / 1000) * pxPerS);
    const t = viewerStrings().timeline;
    return html`<div class="tools row tight apart">
        ${this.#legend()}
        <span class="row still">
          ${this.#zoomButton("minus", t.zoomOut, pxPerS / 1.6, pxPerS <= this.fit * 1.01)}
          ${this.#zoomButton("plus", t.zoomIn, pxPerS * 1.6, pxPerS >= this.most * 0.99)}
        </span>
      </div>
      <an-overview .replay=${this.replay} .shape=${this.shape} .visible=${this.#visible}></an-overview>
      <div class="scroller" role="group" @scroll=${() => this.#showVisible()} aria-label=${t.label} tabindex="0">
        <div
          class="space"
          .style=${`width: ${width}px; height: ${lanes.height}px`}
          @pointerdown=${this.#onPointer}
          @pointermove=${this.#onPointer}
          @click=${this.#onPointer}
        >
          ${this.#drawing(lanes, pxPerS, width)} ${this.#thumbs(lanes, pxPerS)}
          ${SIDES.map((side) => this.#viewerStrings(side, lanes, pxPerS))}
          <div class="playhead"></div>
        </div>
      </div>`;
  }

  #legend(): TemplateResult {
    const { transcript, timeline } = viewerStrings();
    return html`<span class="legend row tight tiny soft">
      <span class="key user">${transcript.user}</span><span class="key model">${transcript.model}</span>
      <span class="key tint listen">${timeline.listens}</span>
      <span class="key tint speak">${timeline.speaks}</span>
    </span>`;
  }

  #zoomButton(name: "plus" | "minus", label: string, zoom: number, isOff: boolean): TemplateResult {
    return html`<button
      class="button quiet square small"
      aria-label=${label}
      title=${label}
      ${inactive(isOff)}
      @click=${() => {
        this.zoom = Math.max(this.fit, zoom);
      }}
    >
      ${icon(name)}
    </button>`;
  }

  #drawing(lanes: Lanes, pxPerS: number, width: number): TemplateResult {
    const { segments, events, costs } = this.timeline;
    return html`<svg width=${width} height=${lanes.height} aria-hidden="true">
      ${this.#ruler(lanes, pxPerS)} ${segmentShapes(segments, lanes, pxPerS)}
      ${SIDES.map((side) => svg`<path class="silence" d="M0 ${lanes[side] + lanes.wave / 2}H${width}" />`)}
      ${SIDES.map((side, i) => svg`<path class="wave ${side}" d=${this.#paths[i] ?? ""} />`)}
      ${costShapes(costs, lanes, pxPerS)} ${eventShapes(events, lanes, pxPerS)}
    </svg>`;
  }

  #ruler(lanes: Lanes, pxPerS: number) {
    const step = tickS(pxPerS);
    const count = Math.floor(this.replay.lengthMs / 1000 / step);
    return Array.from({ length: count + 1 }, (_, i) => {
      const x = i * step * pxPerS;
      return svg`<path class="tick" d="M${x} 0V${lanes.height}" />
        <text x=${x + 5} y="14">${formatClock(i * step)}</text>`;
    });
  }

  #thumbs(lanes: Lanes, pxPerS: number): TemplateResult[] | typeof nothing {
    const { frames } = this.timeline;
    if (lanes.frames === null) return nothing;
    const width = (lanes.frameHeight * 4) / 3;
    const apart = Math.max(width + 4, ((this.replay.lengthMs / 1000) * pxPerS) / MOST_THUMBS);
    let free = 0;
    return frames.flatMap(({ atMs, file }) => {
      const x = (atMs / 1000) * pxPerS;
      if (x < free) return [];
      free = x + apart;
      const place = `left: ${x}px; top: ${lanes.frames}px; width: ${width}px; height: ${lanes.frameHeight}px`;
      return [
        html`<img class="thumb" .style=${place} loading="lazy" alt="" src=${this.assets.source(file)} />`,
      ];
    });
  }

  #viewerStrings(
    side: SpeakerRole & ("user" | "model"),
    lanes: Lanes,
    pxPerS: number,
  ): TemplateResult[] {
    const lines = this.timeline.lines.filter((line) => line.role === side && spoken(line));
    return lines.flatMap((line, i) => {
      const x = (line.atMs / 1000) * pxPerS;
      const next = ((lines[i + 1]?.atMs ?? this.replay.lengthMs) / 1000) * pxPerS;
      if (next - x < LEAST_WORDS_PX) return [];
      const place = `left: ${x}px; top: ${lanes[side] + lanes.wave}px; max-width: ${next - x - 6}px`;
      return [
        html`<span class="text-label ${side} tiny truncate" .style=${place} title=${line.text}>${line.text}</span>`,
      ];
    });
  }

  #onPointer(event: PointerEvent): void {
    const pulls = event.type === "pointermove" && event.pointerType === "mouse";
    if (pulls ? event.buttons !== 1 : event.type === "pointerdown" && event.pointerType !== "mouse")
      return;
    if (event.type === "pointermove" && !pulls) return;
    const left = (event.currentTarget as HTMLElement).getBoundingClientRect().left;
    this.replay.seek(((event.clientX - left) / this.pxPerS) * 1000);
  }

  /** Moves the playhead without rendering, and keeps it visible during playback. */
  #place(): void {
    if (!this.hasUpdated || this.scroller === null) return;
    const x = (this.replay.at.value / 1000) * this.pxPerS;
    this.playhead.style.translate = `${x}px`;
    const { scrollLeft, clientWidth } = this.scroller;
    const isBeyond = x < scrollLeft || x > scrollLeft + clientWidth * 0.92;
    if (isBeyond) this.scroller.scrollLeft = x - clientWidth * 0.12;
    this.#showVisible();
  }

  #showVisible(): void {
    const { scrollLeft, clientWidth, scrollWidth } = this.scroller;
    const [from, until] = [scrollLeft / scrollWidth, (scrollLeft + clientWidth) / scrollWidth];
    const { value } = this.#visible;
    if (from !== value.from || until !== value.until) this.#visible.set({ from, until });
  }
}

/** Excludes written messages, which have no duration. */
function spoken(line: SpokenLine): boolean {
  return line.untilMs > line.atMs && line.text !== "";
}
