import { html, type TemplateResult } from "lit";
import type { Samples } from "../audio/pcm.ts";
import { common } from "../i18n/common.ts";
import { showError } from "../shell/errors.ts";
import { Store } from "../state/store.ts";
import { icon } from "../ui/icon.ts";
import { inactive } from "../ui/inactive.ts";
import { playAudio, stopAudio } from "./audio-playback.ts";

/** What a voice sounds like. */
export interface Clip {
  readonly samples: Samples;
  readonly rate: number;
}

/** A voice that can be played. Its key is unique in the page. */
export interface Preview {
  readonly key: string;
  readonly name: string;
  readonly load: () => Promise<Clip>;
}

/** Key of the voice that is being previewed. */
export const previewedVoice = new Store<string | null>(null);

/** Starts or stops the preview of a voice. Rejects with what `load` rejects with. */
export async function togglePreview({ key, load }: Omit<Preview, "name">): Promise<void> {
  const again = previewedVoice.value === key;
  stopPreview();
  if (again) return;
  previewedVoice.set(key);
  const ended = (): void => {
    if (previewedVoice.value === key) previewedVoice.set(null);
  };
  try {
    const { samples, rate } = await load();
    if (previewedVoice.value === key) playAudio(samples, rate, 0, ended);
  } catch (error) {
    ended();
    throw error;
  }
}

export function stopPreview(): void {
  if (previewedVoice.value === null) return;
  previewedVoice.set(null);
  stopAudio();
}

/** Starts or stops the preview of a voice. */
export function playButton(
  preview: Preview,
  playing: string | null,
  { disabled = false } = {},
): TemplateResult {
  const { voices } = common();
  const plays = playing === preview.key;
  return html`<button
    type="button"
    class="button square listen"
    aria-label=${plays ? voices.stop : voices.play(preview.name)}
    ${inactive(disabled)}
    @click=${() => togglePreview(preview).catch((error: unknown) => showError(error))}
  >
    ${icon(plays ? "stop" : "play")}
  </button>`;
}
