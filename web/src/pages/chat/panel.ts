import { html, type TemplateResult } from "lit";
import { formatNumber } from "../../i18n/format.ts";
import type { Instructions } from "../../session/instructions.ts";
import { select, slider, toggle } from "../../ui/controls.ts";
import "../../components/device-select.ts";
import "../../components/instructions-panel.ts";
import { chatSettings, type Detail } from "./settings.ts";
import { chatStrings } from "./strings.ts";

/** Settings of the next question. */
export function chatPanel(instructions: Instructions): TemplateResult {
  return html`
    <an-instructions-panel
      .instructions=${instructions}
      .kinds=${["audio", "image"]}
    ></an-instructions-panel>
    <section class="card stack">${answers()} ${seeing()} ${session()}</section>
  `;
}

function answers(): TemplateResult {
  const t = chatStrings();
  return html`<details class="fold">
    <summary>${t.answers}</summary>
    <div class="stack">
      ${flag("spoken", t.spoken)}
      ${flag("thinking", t.thinkingToggle, t.thinkingHint)}
      ${slider({
        label: t.maxTokens,
        value: chatSettings.value.maxTokens,
        min: 16,
        max: 2048,
        step: 16,
        format: (value) => t.tokenCount(formatNumber(value)),
        onInput: (maxTokens) => chatSettings.update({ maxTokens }),
      })}
      ${slider({
        label: t.temperature,
        hint: t.temperatureHint,
        value: chatSettings.value.temperature,
        min: 0,
        max: 1.5,
        step: 0.1,
        format: (value) => formatNumber(value, 1),
        onInput: (temperature) => chatSettings.update({ temperature }),
      })}
      ${slider({
        label: t.lengthPenalty,
        hint: t.lengthPenaltyHint,
        value: chatSettings.value.lengthPenalty,
        min: 0.5,
        max: 2,
        step: 0.1,
        format: (value) => formatNumber(value, 1),
        onInput: (lengthPenalty) => chatSettings.update({ lengthPenalty }),
      })}
    </div>
  </details>`;
}

function seeing(): TemplateResult {
  const t = chatStrings();
  const details = Object.entries(t.details) as [Detail, string][];
  return html`<details class="fold">
    <summary>${t.seeing}</summary>
    <div class="stack">
      ${select({
        label: t.detail,
        value: chatSettings.value.detail,
        options: details.map(([value, label]) => ({ value, label })),
        onChange: (detail) => chatSettings.update({ detail }),
      })}
      ${flag("videoSound", t.videoSound)}
    </div>
  </details>`;
}

function session(): TemplateResult {
  const t = chatStrings();
  return html`<details class="fold">
    <summary>${t.session}</summary>
    <div class="stack">
      ${flag("record", t.recordServer, t.recordHint)}
      <an-device-select></an-device-select>
    </div>
  </details>`;
}

function flag(
  name: "spoken" | "thinking" | "videoSound" | "record",
  label: string,
  hint?: string,
): TemplateResult {
  const onChange = (on: boolean): void => chatSettings.update({ [name]: on });
  return toggle({ label, hint, checked: chatSettings.value[name], onChange });
}
