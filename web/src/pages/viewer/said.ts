import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import type { MessagePart } from "../../api/recordings.ts";
import { clock, duration } from "../../i18n/format.ts";
import { Element } from "../../ui/element.ts";
import type { Assets } from "./assets.ts";
import { Follow } from "./follow.ts";
import type { Replay } from "./replay.ts";
import { type Line, type Mark, moments, type Score } from "./score.ts";
import { words } from "./words.ts";

/** What was said, one below the other; a click goes to its place. */
@customElement("an-said")
export class Said extends Element {
  @property({ attribute: false }) score!: Score;
  @property({ attribute: false }) replay!: Replay;
  @property({ attribute: false }) assets!: Assets;
  /** Each line's own sound, where there is no replay of the whole. */
  @property({ type: Boolean }) sounds = false;

  readonly #current = new Follow(
    this,
    () => this.replay,
    (atMs) => this.score.lines.findLast((line) => isSpoken(line) && line.atMs <= atMs + 1) ?? null,
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
    const say = words().said;
    const all = moments(this.score);
    return html`<h2 class="small strong">${say.title}</h2>
      ${
        all.length === 0
          ? html`<p class="small soft nothing">${say.nothing}</p>`
          : html`<ol role="list">
              ${all.map((one) => ("role" in one ? this.#line(one) : mark(one)))}
            </ol>`
      }`;
  }

  #line(line: Line): TemplateResult {
    const say = words().said;
    const isCurrent = line === this.#current.value;
    const place = clock(line.atMs / 1000);
    return html`<li class="${line.role} ${isCurrent ? "current" : ""}" aria-current=${isCurrent ? "true" : nothing}>
      <div class="row tight apart">
        <span class="who tiny strong">${say[line.role]}</span>
        ${
          isSpoken(line)
            ? html`<button
                class="button quiet small number"
                aria-label=${say.jump(place)}
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
          : html`<p class="tiny soft">${words().costs.first(duration(line.firstMs))}</p>`
      }
    </li>`;
  }

  #content(line: Line): TemplateResult {
    const say = words().said;
    const files = (line.parts ?? []).filter(
      ({ file, type }) => file && (this.sounds || type !== "audio"),
    );
    const text =
      line.text || (files.length > 0 ? "" : line.role === "user" ? say.silent : say.wordless);
    return html`${
      text === ""
        ? nothing
        : html`<p class=${line.text === "" ? "soft" : ""} @click=${() => isSpoken(line) && this.replay.seek(line.atMs)}>
            <span class="text">${text}</span>
            ${line.flaw ? html`<span class="badge ${line.flaw === "failed" ? "danger" : "caution"}">${say.flaws[line.flaw]}</span>` : nothing}
          </p>`
    }
    ${files.map((part) => this.#file(part))}`;
  }

  #file({ type, file = "" }: MessagePart): TemplateResult {
    const say = words().said;
    const source = this.assets.source(file);
    if (type === "image") return html`<img class="part" src=${source} alt=${say.picture} />`;
    if (type === "video") {
      return html`<video class="part" controls playsinline preload="metadata" aria-label=${file} src=${source}></video>`;
    }
    return html`<audio class="part" controls preload="none" aria-label=${file} src=${source}></audio>`;
  }
}

function mark({ atMs, type }: Mark): TemplateResult {
  return html`<li class="happening tiny soft">
    <span>${words().said.marks[type]}</span> <span class="number">${clock(atMs / 1000)}</span>
  </li>`;
}

function isSpoken(line: Line): boolean {
  return line.role !== "system" && line.untilMs > line.atMs;
}
