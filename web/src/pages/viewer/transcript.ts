import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import type { PartRecord } from "../../api/answers.ts";
import type { ReplayPlayer } from "../../components/replay-player.ts";
import { transcriptButtons } from "../../components/transcript-text.ts";
import { formatClock, formatDuration } from "../../i18n/language.ts";
import {
  type SpokenLine,
  type Timeline,
  type TimelineEvent,
  timelineItems,
} from "../../replay/timeline.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { PlayheadValue } from "./playback.ts";
import type { Assets } from "./recording-loader.ts";
import { viewerStrings } from "./strings.ts";

/** The transcript. A click seeks. */
@customElement("an-viewer-transcript")
export class ViewerTranscript extends BaseElement {
  @property({ attribute: false }) timeline!: Timeline;
  @property({ attribute: false }) replay!: ReplayPlayer;
  @property({ attribute: false }) assets!: Assets;
  /** Start of the conversation, for the name of a saved file. */
  @property({ attribute: false }) startedAt = "";
  /** Audio of each line, used if there is no merged recording. */
  @property({ type: Boolean }) playable = false;

  readonly #current = new PlayheadValue(
    this,
    () => this.replay,
    (atMs) =>
      this.timeline.lines.findLast((line) => isSpoken(line) && line.atMs <= atMs + 1) ?? null,
  );

  protected override updated(): void {
    const line = this.querySelector<HTMLElement>("li.current");
    const list = this.querySelector("ol");
    if (line === null || list === null) return;
    const top = line.offsetTop - list.offsetTop;
    const isInSight =
      top >= list.scrollTop && top + line.offsetHeight <= list.scrollTop + list.clientHeight;
    if (!isInSight) list.scrollTo({ top: top - 48, behavior: "smooth" });
  }

  protected override render(): TemplateResult {
    const t = viewerStrings().transcript;
    const all = timelineItems(this.timeline);
    return html`<div class="row apart still head">
        <h2 class="small strong">${t.title}</h2>
        <div class="row tight still">${transcriptButtons(this.timeline.lines, "transcript", { when: this.startedAt })}</div>
      </div>
      ${
        all.length === 0
          ? html`<p class="small soft nothing">${t.nothing}</p>`
          : html`<ol role="list">
              ${all.map((one) => ("role" in one ? this.#line(one) : event(one)))}
            </ol>`
      }`;
  }

  #line(line: SpokenLine): TemplateResult {
    const t = viewerStrings().transcript;
    const isCurrent = line === this.#current.value;
    const place = formatClock(line.atMs / 1000);
    return html`<li class="${line.role} ${isCurrent ? "current" : ""}" aria-current=${isCurrent ? "true" : nothing}>
      <div class="row tight apart">
        <span class="speaker tiny strong">${t[line.role]}</span>
        ${
          isSpoken(line)
            ? html`<button
                class="button quiet small number"
                aria-label=${t.jump(place)}
                @click=${() => this.replay.seek(line.atMs)}
              >
                ${place}
              </button>`
            : nothing
        }
      </div>
      ${this.#content(line)}
      ${
        line.firstMs === undefined
          ? nothing
          : html`<p class="tiny soft">${viewerStrings().costs.first(formatDuration(line.firstMs))}</p>`
      }
    </li>`;
  }

  #content(line: SpokenLine): TemplateResult {
    const t = viewerStrings().transcript;
    const files = (line.parts ?? []).filter(
      ({ file, type }) => file && (this.playable || type !== "audio"),
    );
    const text = line.text || (files.length > 0 ? "" : line.role === "user" ? t.silent : t.noText);
    return html`${
      text === ""
        ? nothing
        : html`<p class=${line.text === "" ? "soft" : ""} @click=${() => isSpoken(line) && this.replay.seek(line.atMs)}>
            <span class="text">${text}</span>
            ${line.cut ? html`<span class="badge caution">${t.cut}</span>` : nothing}
            ${line.status ? html`<span class="badge ${line.status === "failed" ? "danger" : "caution"}">${t.lineStatus[line.status]}</span>` : nothing}
          </p>`
    }
    ${files.map((part) => this.#file(part))}`;
  }

  #file({ type, file }: PartRecord): TemplateResult {
    const t = viewerStrings().transcript;
    const name = file ?? "";
    const source = this.assets.source(name);
    if (type === "image") return html`<img class="part" src=${source} alt=${t.picture} />`;
    if (type === "video") {
      return html`<video class="part" controls playsinline preload="metadata" aria-label=${name} src=${source}></video>`;
    }
    return html`<audio class="part" controls preload="none" aria-label=${name} src=${source}></audio>`;
  }
}

function event({ atMs, type }: TimelineEvent): TemplateResult {
  return html`<li class="event tiny soft">
    <span>${viewerStrings().transcript.events[type]}</span> <span class="number">${formatClock(atMs / 1000)}</span>
  </li>`;
}

function isSpoken(line: SpokenLine): boolean {
  return line.role !== "system" && line.untilMs > line.atMs;
}
