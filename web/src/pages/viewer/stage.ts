import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { ref } from "lit/directives/ref.js";
import type { Meta } from "../../api/recordings.ts";
import { clock } from "../../i18n/format.ts";
import { tellProblem } from "../../shell/problem.ts";
import { type Changed, Element } from "../../ui/element.ts";
import type { Assets } from "./assets.ts";
import { Follow } from "./follow.ts";
import type { Replay } from "./replay.ts";
import { latest, type Score } from "./score.ts";
import { words } from "./words.ts";

/** What plays: the film, or the sound with the picture of its time above it. */
@customElement("an-stage")
export class Stage extends Element {
  @property({ attribute: false }) meta!: Meta;
  @property({ attribute: false }) score!: Score;
  @property({ attribute: false }) replay!: Replay;
  @property({ attribute: false }) assets!: Assets;

  @state() private source = "";

  readonly #picture = new Follow(
    this,
    () => this.replay,
    (atMs) => latest(this.score.pictures, atMs) ?? this.score.pictures[0] ?? null,
  );
  readonly #line = new Follow(
    this,
    () => this.replay,
    (atMs) => this.score.lines.findLast((line) => line.atMs <= atMs && atMs < line.untilMs) ?? null,
  );

  protected override willUpdate(changed: Changed<this>): void {
    if (changed.has("meta") || changed.has("assets")) void this.#load();
  }

  protected override render(): TemplateResult {
    const { merged_replay_video: film } = this.meta;
    const hasPictures = this.score.pictures.length > 0;
    if (film) return this.#framed(this.#film());
    return html`${hasPictures ? this.#framed(this.#still()) : nothing} ${this.#sound()}`;
  }

  #framed(picture: TemplateResult | typeof nothing): TemplateResult {
    const line = this.#line.value;
    return html`<figure class="picture-frame">
      ${picture}
      ${line && line.text !== "" ? html`<figcaption class=${line.role}>${line.text}</figcaption>` : nothing}
    </figure>`;
  }

  #film(): TemplateResult {
    return html`<video
      playsinline
      preload="metadata"
      aria-label=${words().line.film}
      src=${this.source || nothing}
      ${ref((element) => this.#attach(element))}
      @click=${() => this.replay.toggle()}
    ></video>`;
  }

  #still(): TemplateResult | typeof nothing {
    const picture = this.#picture.value;
    if (picture === null) return nothing;
    const alt = words().line.frame(clock(picture.atMs / 1000));
    return html`<img src=${this.assets.source(picture.file)} alt=${alt} />`;
  }

  #sound(): TemplateResult | typeof nothing {
    if (!this.meta.merged_replay) return nothing;
    return html`<audio
      preload="metadata"
      src=${this.source || nothing}
      ${ref((element) => this.#attach(element))}
    ></audio>`;
  }

  #attach(element: globalThis.Element | undefined): void {
    this.replay.attach(element instanceof HTMLMediaElement ? element : null);
  }

  async #load(): Promise<void> {
    const file = this.meta.merged_replay_video ?? this.meta.merged_replay;
    if (!file) return;
    try {
      this.source = await this.assets.url(file);
    } catch (error) {
      tellProblem(error);
    }
  }
}
