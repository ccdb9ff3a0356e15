import { html, type TemplateResult } from "lit";
import { number } from "../../i18n/format.ts";
import type { Instructions } from "../../session/instructions.ts";
import { select, slider, toggle } from "../../ui/controls.ts";
import "../../components/device-choice.ts";
import "../../components/instructions-panel.ts";
import { type Detail, settings } from "./settings.ts";
import { words } from "./words.ts";

/** What the next question is asked with. */
export function panel(instructions: Instructions): TemplateResult {
  return html`
    <an-instructions-panel
      .instructions=${instructions}
      .kinds=${["audio", "image"]}
    ></an-instructions-panel>
    <section class="card stack">${answers()} ${seeing()} ${session()}</section>
  `;
}

function answers(): TemplateResult {
  const say = words();
  return html`<details class="fold">
    <summary>${say.answers}</summary>
    <div class="stack">
      ${flag("spoken", say.spoken)}
      ${flag("thinking", say.thinkingToggle, say.thinkingHint)}
      ${slider({
        label: say.maxTokens,
        value: settings.value.maxTokens,
        min: 16,
        max: 2048,
        step: 16,
        format: (value) => say.tokenCount(number(value)),
        onInput: (maxTokens) => settings.update({ maxTokens }),
      })}
      ${slider({
        label: say.temperature,
        hint: say.temperatureHint,
        value: settings.value.temperature,
        min: 0,
        max: 1.5,
        step: 0.1,
        format: (value) => number(value, 1),
        onInput: (temperature) => settings.update({ temperature }),
      })}
      ${slider({
        label: say.lengthPenalty,
        hint: say.lengthPenaltyHint,
        value: settings.value.lengthPenalty,
        min: 0.5,
        max: 2,
        step: 0.1,
        format: (value) => number(value, 1),
        onInput: (lengthPenalty) => settings.update({ lengthPenalty }),
      })}
    </div>
  </details>`;
}

function seeing(): TemplateResult {
  const say = words();
  const details = Object.entries(say.details) as [Detail, string][];
  return html`<details class="fold">
    <summary>${say.seeing}</summary>
    <div class="stack">
      ${select({
        label: say.detail,
        value: settings.value.detail,
        options: details.map(([value, label]) => ({ value, label })),
        onChange: (detail) => settings.update({ detail }),
      })}
      ${flag("videoSound", say.videoSound)}
    </div>
  </details>`;
}

function session(): TemplateResult {
  const say = words();
  return html`<details class="fold">
    <summary>${say.session}</summary>
    <div class="stack">
      ${flag("record", say.kept, say.keptHint)}
      <an-device-choice></an-device-choice>
    </div>
  </details>`;
}

function flag(
  name: "spoken" | "thinking" | "videoSound" | "record",
  label: string,
  hint?: string,
): TemplateResult {
  const onChange = (on: boolean): void => settings.update({ [name]: on });
  return toggle({ label, hint, checked: settings.value[name], onChange });
}
