import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { type Preset, type PresetPage, presets } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import { defineStrings, language } from "../i18n/language.ts";
import { endPresetChoice } from "../session/preset-choice.ts";
import { capabilities, isUsable, loadCapabilities } from "../shell/capabilities.ts";
import { showError } from "../shell/errors.ts";
import { StoreController } from "../state/store.ts";
import { localValues } from "../storage/browser-values.ts";
import {
  asPreset,
  deleteOwnPreset,
  isOwnPreset,
  type OwnPreset,
  ownPresets,
  type PresetContent,
  saveOwnPreset,
} from "../storage/own-presets.ts";
import { BaseElement } from "../ui/base-element.ts";
import { choiceChips, select } from "../ui/controls.ts";
import { dialog } from "../ui/dialog.ts";
import { icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { toast } from "../ui/toasts.ts";

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
    const fewest = this.chips ? 2 : 1; // chips are on the stage, and one alone is no choice
    if (this.all !== null && this.#usable.length < fewest) return html`${nothing}`;
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
    const { page } = this;
    try {
      const [all] = await Promise.all([presets(page), loadCapabilities()]);
      this.all = all;
      const first = this.#now;
      if (first) this.emit("choose", first);
    } finally {
      endPresetChoice(page);
    }
  }

  #choose(id: string): void {
    this.chosen = id;
    const preset = this.#now;
    if (preset) this.emit("choose", preset);
  }
}

const LONGEST_NAME = 60;
/** Of all texts: what a call accepts. */
const LONGEST = 8000;

/**
 * Saves what a page uses now as a preset of the user, and changes or deletes the selected one.
 *
 * @fires choose - the preset that was added
 */
@customElement("an-own-preset")
export class OwnPresetEditor extends BaseElement {
  readonly #all = new StoreController(this, ownPresets);

  /** Id of the selected preset. */
  @property({ attribute: false }) chosen: string | null = null;
  /** Instructions and voices of the page. */
  @property({ attribute: false }) content!: () => PresetContent | Promise<PresetContent>;

  @state() private open = false;
  /** The voice of the preset is looked up. */
  @state() private saving = false;

  protected override render(): TemplateResult {
    const t = strings();
    const own = this.#all.value.find(({ id }) => id === this.chosen);
    return html`<button class="button small" type="button" @click=${() => this.#show(true)}>
        ${icon(own ? "edit" : "plus")} ${own ? t.edit : t.add}
      </button>
      ${dialog({
        open: this.open,
        title: own ? t.edit : t.add,
        body: this.#form(own),
        onClose: () => this.#show(false),
      })}`;
  }

  #form(own: OwnPreset | undefined): TemplateResult {
    const t = strings();
    return html`<form class="stack" @submit=${(event: SubmitEvent) => void this.#submit(event, own)}>
      <label class="field">
        <span class="label">${t.name}</span>
        <input
          class="input"
          name="name"
          required
          autofocus
          autocomplete="off"
          maxlength=${LONGEST_NAME}
          .value=${own?.name ?? ""}
        />
      </label>
      <p class="small soft">${t.hint}</p>
      <div class="row apart">
        ${
          own
            ? html`<button class="button quiet" type="button" @click=${() => this.#delete(own)}>
                  ${icon("trash")} ${common().delete}
                </button>
                <button class="button" value="new" ${inactive(this.saving)}>${t.saveNew}</button>`
            : nothing
        }
        <button class="button primary" value="save" ${inactive(this.saving)}>${common().save}</button>
      </div>
    </form>`;
  }

  async #submit(event: SubmitEvent, own: OwnPreset | undefined): Promise<void> {
    event.preventDefault();
    const isNew = !own || (event.submitter as HTMLButtonElement | null)?.value === "new";
    const name = String(new FormData(event.target as HTMLFormElement).get("name")).trim();
    this.saving = true; // a second press would save it twice
    try {
      const content = await this.content();
      if (content.texts.join("\n\n").length > LONGEST) throw new Error(strings().tooLong);
      const preset = saveOwnPreset(name || strings().unnamed, content, isNew ? undefined : own.id);
      this.#show(false);
      if (isNew) this.emit<Preset>("choose", asPreset(preset));
      toast({ tone: "good", title: localValues.areKept ? strings().saved : strings().savedForNow });
    } catch (error) {
      showError(error, strings().notSaved);
    } finally {
      this.saving = false;
    }
  }

  #delete({ id, name, ...content }: OwnPreset): void {
    deleteOwnPreset(id);
    this.#show(false);
    toast({
      tone: "info",
      title: strings().deleted,
      action: { label: strings().undo, run: () => void saveOwnPreset(name, content, id) },
    });
  }

  #show(open: boolean): void {
    this.open = open;
  }
}

const strings = defineStrings(
  {
    add: "Save as preset",
    edit: "Edit preset",
    name: "Name",
    unnamed: "My preset",
    hint: "Keeps the current instructions, greeting and voices, on this device only.",
    saveNew: "Save as new",
    saved: "Preset saved",
    savedForNow: "Preset saved until this page closes: the browser stores nothing for this site",
    notSaved: "Cannot save the preset",
    tooLong: "The instructions of a preset may have 8,000 characters. Shorten them.",
    deleted: "Preset deleted",
    undo: "Undo",
  },
  {
    add: "存为预设",
    edit: "编辑预设",
    name: "名称",
    unnamed: "我的预设",
    hint: "保存当前的系统提示、开场白和音色，仅保存在此设备上。",
    saveNew: "另存为新预设",
    saved: "预设已保存",
    savedForNow: "预设仅保存到此页面关闭为止：浏览器不为此网站存储数据",
    notSaved: "无法保存预设",
    tooLong: "预设的系统提示最多 8000 个字符，请缩短。",
    deleted: "预设已删除",
    undo: "撤销",
  },
);
