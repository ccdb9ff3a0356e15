import { html, nothing, type TemplateResult } from "lit";
import { live } from "lit/directives/live.js";
import { type IconName, icon } from "./icon.ts";

export interface SelectOption<T extends string = string> {
  readonly value: T;
  readonly label: string;
  readonly icon?: IconName;
}

interface Labelled {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly disabled?: boolean | undefined;
}

interface OptionGroup<T extends string = string> {
  readonly label: string;
  readonly options: readonly SelectOption<T>[];
}

interface Select<T extends string> extends Labelled {
  readonly value: T;
  readonly options?: readonly SelectOption<T>[];
  readonly groups?: readonly OptionGroup<T>[];
  readonly onChange: (value: T) => void;
}

/** A dropdown. */
export function select<T extends string>(spec: Select<T>): TemplateResult {
  const options = (all: readonly SelectOption<T>[]) =>
    all.map(
      ({ value, label }) =>
        html`<option value=${value} .selected=${live(value === spec.value)}>${label}</option>`,
    );
  const groups = spec.groups?.filter(({ options }) => options.length > 0) ?? [];
  return html`<label class="field">
    <span class="label">${spec.label}</span>
    <select
      class="input"
      ?disabled=${spec.disabled ?? false}
      @change=${(event: Event) => spec.onChange((event.target as HTMLSelectElement).value as T)}
    >
      ${options(spec.options ?? [])}
      ${groups.map((group) => html`<optgroup label=${group.label}>${options(group.options)}</optgroup>`)}
    </select>
    ${hint(spec)}
  </label>`;
}

interface Segmented<T extends string> extends Labelled {
  /** Name of the radio group, unique in the page. */
  readonly name: string;
  readonly value: T;
  readonly options: readonly SelectOption<T>[];
  readonly onChange: (value: T) => void;
}

/** A segmented control. */
export function segmented<T extends string>(spec: Segmented<T>): TemplateResult {
  return html`<fieldset class="field">
    <legend>${spec.label}</legend>
    <div class="segmented">
      ${spec.options.map(
        (option) => html`<label>
          <input
            type="radio"
            name=${spec.name}
            value=${option.value}
            ?disabled=${spec.disabled ?? false}
            .checked=${live(option.value === spec.value)}
            @change=${() => spec.onChange(option.value)}
          />
          ${option.icon ? icon(option.icon) : nothing}${option.label}
        </label>`,
      )}
    </div>
    ${hint(spec)}
  </fieldset>`;
}

interface Chips<T extends string> extends Omit<Segmented<T>, "options"> {
  readonly options: readonly (SelectOption<T> & { readonly title?: string })[];
}

/** A choice in one row, which scrolls if it is too long. */
export function choiceChips<T extends string>(spec: Chips<T>): TemplateResult {
  return html`<fieldset class="chips">
    <legend class="visually-hidden">${spec.label}</legend>
    ${spec.options.map(
      ({ value, label, title }) => html`<label title=${title ?? nothing}>
        <input
          type="radio"
          name=${spec.name}
          value=${value}
          .checked=${live(value === spec.value)}
          @change=${() => spec.onChange(value)}
        />${label}</label
      >`,
    )}
  </fieldset>`;
}

interface Toggle extends Labelled {
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
}

/** A switch. */
export function toggle(spec: Toggle): TemplateResult {
  return html`<label class="toggle">
    <input
      type="checkbox"
      role="switch"
      ?disabled=${spec.disabled ?? false}
      .checked=${live(spec.checked)}
      @change=${(event: Event) => spec.onChange((event.target as HTMLInputElement).checked)}
    />
    <span>${spec.label}${spec.hint ? html`<br /><span class="tiny soft">${spec.hint}</span>` : nothing}</span>
  </label>`;
}

interface Slider extends Labelled {
  readonly value: number;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  /** Formats the value for display and for screen readers. */
  readonly format: (value: number) => string;
  readonly onInput: (value: number) => void;
}

/** A slider. */
export function slider(spec: Slider): TemplateResult {
  return html`<label class="field">
    <span class="row apart still">
      <span class="label small strong">${spec.label}</span>
      <span class="small soft number">${spec.format(spec.value)}</span>
    </span>
    <input
      type="range"
      min=${spec.min}
      max=${spec.max}
      step=${spec.step}
      ?disabled=${spec.disabled ?? false}
      aria-label=${spec.label}
      aria-valuetext=${spec.format(spec.value)}
      .value=${live(String(spec.value))}
      @input=${(event: Event) => spec.onInput((event.target as HTMLInputElement).valueAsNumber)}
    />
    ${hint(spec)}
  </label>`;
}

interface TextArea extends Labelled {
  readonly value: string;
  readonly rows?: number;
  readonly longest?: number;
  readonly placeholder?: string;
  readonly onInput: (value: string) => void;
}

/** A multi-line text field. */
export function textArea(spec: TextArea): TemplateResult {
  return html`<label class="field">
    <span class="label">${spec.label}</span>
    <textarea
      class="input"
      rows=${spec.rows ?? 4}
      maxlength=${spec.longest ?? nothing}
      placeholder=${spec.placeholder ?? nothing}
      ?disabled=${spec.disabled ?? false}
      .value=${live(spec.value)}
      @input=${(event: Event) => spec.onInput((event.target as HTMLTextAreaElement).value)}
    ></textarea>
    ${hint(spec)}
  </label>`;
}

/** A level meter, 0 to 1. `hot` shows a warning. */
export function meter(label: string, level: number, hot = false): TemplateResult {
  const percent = Math.round(Math.min(1, Math.max(0, level)) * 100);
  return html`<span
    class="meter ${hot ? "hot" : ""}"
    role="meter"
    aria-label=${label}
    aria-valuemin="0"
    aria-valuemax="100"
    aria-valuenow=${percent}
    ><span .style=${`--level: ${percent / 100}`}></span
  ></span>`;
}

function hint(spec: Labelled): TemplateResult | typeof nothing {
  return spec.hint ? html`<span class="hint">${spec.hint}</span>` : nothing;
}

/** Maps a peak in dBFS to the level of a `meter` or an orb, 0 to 1. */
export function loudnessShare(peakDb: number): number {
  return Math.min(1, Math.max(0, (peakDb - QUIET_DB) / (LOUD_DB - QUIET_DB)));
}

const QUIET_DB = -48;
const LOUD_DB = -8;
