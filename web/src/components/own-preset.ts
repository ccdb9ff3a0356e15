import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import type { Preset } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import { defineStrings } from "../i18n/language.ts";
import { showError } from "../shell/errors.ts";
import { StoreController } from "../state/store.ts";
import {
  asPreset,
  deleteOwnPreset,
  type OwnPreset,
  ownPresets,
  type PresetContent,
  saveOwnPreset,
} from "../storage/own-presets.ts";
import { BaseElement } from "../ui/base-element.ts";
import { dialog } from "../ui/dialog.ts";
import { icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";

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
        <span>${t.name}</span>
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
                <button class="button" value="new">${t.saveNew}</button>`
            : nothing
        }
        <button class="button primary" value="save">${common().save}</button>
      </div>
    </form>`;
  }

  async #submit(event: SubmitEvent, own: OwnPreset | undefined): Promise<void> {
    event.preventDefault();
    const isNew = !own || (event.submitter as HTMLButtonElement | null)?.value === "new";
    const name = String(new FormData(event.target as HTMLFormElement).get("name")).trim();
    try {
      const content = await this.content();
      if (content.texts.join("\n\n").length > LONGEST) throw new Error(strings().tooLong);
      const preset = saveOwnPreset(name || strings().unnamed, content, isNew ? undefined : own.id);
      this.#show(false);
      if (isNew) this.emit<Preset>("choose", asPreset(preset));
      toast({ tone: "good", title: strings().saved });
    } catch (error) {
      showError(error, strings().notSaved);
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
    hint: "保存当前的系统提示、开场白和声音，仅保存在此设备上。",
    saveNew: "另存为新预设",
    saved: "预设已保存",
    notSaved: "无法保存预设",
    tooLong: "预设的系统提示最多 8000 个字符，请缩短。",
    deleted: "预设已删除",
    undo: "撤销",
  },
);
