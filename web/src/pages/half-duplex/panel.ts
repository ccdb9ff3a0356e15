import { html, type TemplateResult } from "lit";
import { duration, number, seconds } from "../../i18n/format.ts";
import type { Instructions } from "../../session/instructions.ts";
import { slider, toggle } from "../../ui/controls.ts";
import "../../components/device-choice.ts";
import "../../components/instructions-panel.ts";
import { settings } from "./settings.ts";
import { words } from "./words.ts";

type Figure =
  | "threshold"
  | "minSpeechMs"
  | "minSilenceMs"
  | "padMs"
  | "maxTokens"
  | "temperature"
  | "lengthPenalty"
  | "timeoutS";

interface Scale {
  readonly label: string;
  readonly hint?: string;
  readonly bounds: readonly [min: number, max: number, step: number];
  readonly format: (value: number) => string;
}

/** What a session begins with; `fixed` while one is under way. */
export function panel(instructions: Instructions, fixed: boolean): TemplateResult {
  return html`
    <an-instructions-panel
      .instructions=${instructions}
      .kinds=${["audio"]}
      ?disabled=${fixed}
    ></an-instructions-panel>
    <section class="card stack">${hearing(fixed)} ${answers(fixed)} ${session(fixed)}</section>
    <p class="tiny soft" ?hidden=${!fixed}>${words().later}</p>
  `;
}

function hearing(fixed: boolean): TemplateResult {
  const say = words();
  return html`<details class="fold">
    <summary>${say.hearing}</summary>
    <div class="stack">
      ${figure("minSilenceMs", fixed, {
        label: say.minSilence,
        hint: say.minSilenceHint,
        bounds: [200, 3000, 50],
        format: (ms) => seconds(ms / 1000),
      })}
      ${figure("threshold", fixed, {
        label: say.threshold,
        hint: say.thresholdHint,
        bounds: [0.05, 0.95, 0.05],
        format: (value) => number(value, 2),
      })}
      ${figure("minSpeechMs", fixed, {
        label: say.minSpeech,
        hint: say.minSpeechHint,
        bounds: [0, 1000, 8],
        format: duration,
      })}
      ${figure("padMs", fixed, { label: say.pad, bounds: [0, 500, 10], format: duration })}
    </div>
  </details>`;
}

function answers(fixed: boolean): TemplateResult {
  const say = words();
  return html`<details class="fold">
    <summary>${say.answers}</summary>
    <div class="stack">
      ${toggle({
        label: say.spoken,
        checked: settings.value.spoken,
        disabled: fixed,
        onChange: (spoken) => settings.update({ spoken }),
      })}
      ${figure("maxTokens", fixed, {
        label: say.maxTokens,
        bounds: [16, 1024, 16],
        format: (value) => say.tokens(number(value)),
      })}
      ${figure("temperature", fixed, {
        label: say.temperature,
        hint: say.temperatureHint,
        bounds: [0, 1.5, 0.1],
        format: (value) => number(value, 1),
      })}
      ${figure("lengthPenalty", fixed, {
        label: say.lengthPenalty,
        hint: say.lengthPenaltyHint,
        bounds: [0.5, 2, 0.1],
        format: (value) => number(value, 1),
      })}
    </div>
  </details>`;
}

function session(fixed: boolean): TemplateResult {
  const say = words();
  return html`<details class="fold">
    <summary>${say.session}</summary>
    <div class="stack">
      ${figure("timeoutS", fixed, {
        label: say.timeout,
        bounds: [30, 600, 10],
        format: seconds,
      })}
      ${toggle({
        label: say.record,
        hint: say.recordHint,
        checked: settings.value.record,
        disabled: fixed,
        onChange: (record) => settings.update({ record }),
      })}
      <an-device-choice ?disabled=${fixed}></an-device-choice>
    </div>
  </details>`;
}

function figure(name: Figure, disabled: boolean, { bounds, ...scale }: Scale): TemplateResult {
  const [min, max, step] = bounds;
  const onInput = (value: number): void => settings.update({ [name]: value });
  return slider({ ...scale, min, max, step, value: settings.value[name], disabled, onInput });
}
