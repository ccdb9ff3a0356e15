import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { type Preset, type PresetPage, presets } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import { language } from "../i18n/language.ts";
import { capabilities, isUsable, loadCapabilities } from "../shell/capabilities.ts";
import { showError } from "../shell/errors.ts";
import { StoreController } from "../state/store.ts";
import { asPreset, isOwnPreset, ownPresets } from "../storage/own-presets.ts";
import { BaseElement } from "../ui/base-element.ts";
import { choiceChips, select } from "../ui/controls.ts";

/**
 * Selects the preset of a session.
 *
 * @fires choose - the preset, after loading and after every selection
 */
@customElement("an-preset-selector")
export class PresetSelector extends BaseElement {
  readonly #able = new StoreController(this, capabilities);
  readonly #own = new StoreController(this, ownPresets);

  /** The page whose presets are listed. */
  @property() page: PresetPage = "audio_duplex";
  /** Id of the selected preset. Null selects the first usable one in the user's language. */
  @property({ attribute: false }) chosen: string | null = null;
  @property({ type: Boolean }) disabled = false;
  /** Shows all presets side by side instead of a dropdown. */
  @property({ type: Boolean }) chips = false;

  @state() private all: readonly Preset[] | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#load().catch((error: unknown) => showError(error, common().presets.failed));
  }

  protected override updated(): void {
    const now = this.#now;
    const isGone = isOwnPreset(this.chosen) && now?.id !== this.chosen;
    if (isGone && now) this.#choose(now.id); // deleted
  }

  protected override render(): TemplateResult {
    const { label } = common().presets;
    if (this.all !== null && this.#usable.length === 0) return html`${nothing}`;
    const now = this.#now;
    const options = this.#usable.map(({ id, name, description }) => ({
      value: id,
      label: name,
      title: description,
    }));
    const value = now?.id ?? "";
    if (this.chips) {
      return choiceChips({
        name: "preset",
        label,
        value,
        options,
        onChange: (id) => this.#choose(id),
      });
    }
    return select({
      label,
      value,
      options,
      hint: now?.description || "\u00a0", // keeps its place while the presets load
      disabled: this.disabled || this.all === null,
      onChange: (id) => this.#choose(id),
    });
  }

  /** What no engine can do is not offered. */
  get #usable(): readonly Preset[] {
    if (this.all === null) return [];
    const all = [...this.#own.value.map(asPreset), ...this.all];
    return all.filter((preset) => isUsable(preset, this.#able.value));
  }

  get #now(): Preset | undefined {
    const usable = this.#usable;
    const fits = ({ id, lang }: Preset) =>
      !isOwnPreset(id) && (lang === undefined || lang === language.value);
    return usable.find(({ id }) => id === this.chosen) ?? usable.find(fits) ?? usable[0];
  }

  async #load(): Promise<void> {
    const [all] = await Promise.all([presets(this.page), loadCapabilities()]);
    this.all = all;
    const first = this.#now;
    if (first) this.emit("choose", first);
  }

  #choose(id: string): void {
    this.chosen = id;
    const preset = this.#now;
    if (preset) this.emit("choose", preset);
  }
}
