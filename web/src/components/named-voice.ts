import { html, nothing, type TemplateResult } from "lit";
import { customElement, property } from "lit/decorators.js";
import type { NamedVoice } from "../api/answers.ts";
import { voiceSample } from "../api/catalog.ts";
import { decodeAudioFile, OUTPUT_RATE } from "../audio/pcm.ts";
import { common } from "../i18n/common.ts";
import { languageName } from "../i18n/language.ts";
import { capabilities, refreshCapabilities } from "../shell/capabilities.ts";
import { optional, Settings, StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { select } from "../ui/controls.ts";
import { type Preview, playButton, previewedVoice, stopPreview } from "./voice-preview.ts";
import "./components.css";

/** Which of the engine's voices speaks, on all pages. Null: the engine's default. */
export const namedVoiceSettings = new Settings("named-voice", 1, { id: optional(64) });

/**
 * The id of the selected voice. Undefined if none is selected, or if the engine does not have it. An
 * engine names its voices when it has loaded them, which may be after the page.
 */
export async function namedVoice(): Promise<string | undefined> {
  if (namedVoiceSettings.value.id === null) return undefined;
  if (!chosen()) await refreshCapabilities();
  return chosen()?.id;
}

function chosen(): NamedVoice | undefined {
  return capabilities.value?.voices.find(({ id }) => id === namedVoiceSettings.value.id);
}

function labelOf({ name, language, gender }: NamedVoice): string {
  const { voices } = common();
  const accents: Readonly<Record<string, string>> = voices.accents;
  return voices.named(name, accents[language] ?? languageName(language), voices.genders[gender]);
}

/** The sample of a voice. Without a voice it is not played. */
function previewOf(voice: NamedVoice | undefined): Preview {
  const { id = "", name = common().voices.default } = voice ?? {};
  const load = async () => ({
    samples: await decodeAudioFile(await voiceSample(id), OUTPUT_RATE),
    rate: OUTPUT_RATE,
  });
  return { key: `named:${id}`, name, load };
}

/** Selects and previews one of the engine's voices. Nothing if the engine has none. */
@customElement("an-named-voice")
export class NamedVoiceSelect extends BaseElement {
  readonly #able = new StoreController(this, capabilities);
  readonly #playing = new StoreController(this, previewedVoice);

  @property({ type: Boolean }) disabled = false;

  constructor() {
    super();
    new StoreController(this, namedVoiceSettings);
  }

  override disconnectedCallback(): void {
    stopPreview();
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult | typeof nothing {
    const { voices } = common();
    const all = this.#able.value?.voices ?? [];
    if (all.length === 0) return nothing;
    const voice = chosen();
    return html`<div class="voice-choice">
      ${select({
        label: voices.label,
        value: voice?.id ?? "",
        options: [
          { value: "", label: voices.noneNamed },
          ...all.map((one) => ({ value: one.id, label: labelOf(one) })),
        ],
        disabled: this.disabled,
        onChange: (id) => namedVoiceSettings.update({ id: id === "" ? null : id }),
      })}
      ${playButton(previewOf(voice), this.#playing.value, { disabled: voice === undefined })}
    </div>`;
  }
}
