import { html, type TemplateResult } from "lit";
import { type IconName, icon } from "./icon.ts";
import "./tabs.css";

export interface TabOption<T extends string = string> {
  readonly value: T;
  readonly label: string;
  readonly icon?: IconName;
}

interface Tabs<T extends string> {
  /** Prefix of the ids, unique in the page. */
  readonly id: string;
  readonly label: string;
  readonly value: T;
  readonly options: readonly TabOption<T>[];
  readonly onChange: (value: T) => void;
}

/** Tabs. Arrow keys select the next one. */
export function tabs<T extends string>(spec: Tabs<T>): TemplateResult {
  return html`<div
    class="tabs"
    role="tablist"
    aria-label=${spec.label}
    @keydown=${(event: KeyboardEvent) => step(event, spec)}
  >
    ${spec.options.map((option) => {
      const chosen = option.value === spec.value;
      return html`<button
        role="tab"
        id="${spec.id}-${option.value}"
        aria-controls="${spec.id}-${option.value}-panel"
        aria-selected=${chosen}
        tabindex=${chosen ? 0 : -1}
        @click=${() => spec.onChange(option.value)}
      >
        ${option.icon ? icon(option.icon) : ""}<span>${option.label}</span>
      </button>`;
    })}
  </div>`;
}

/** The panel of a tab with the same `id` and `value`. Always rendered, hidden unless selected. */
export function tabPanel(
  { id, value }: Pick<Tabs<string>, "id" | "value">,
  own: string,
  body: TemplateResult,
): TemplateResult {
  return html`<div
    role="tabpanel"
    id="${id}-${own}-panel"
    aria-labelledby="${id}-${own}"
    ?hidden=${value !== own}
  >
    ${body}
  </div>`;
}

const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 };

function step<T extends string>(event: KeyboardEvent, { value, options, onChange }: Tabs<T>): void {
  const by = STEPS[event.key];
  if (by === undefined) return;
  const now = options.findIndex((option) => option.value === value);
  const next = (now + by + options.length) % options.length;
  const option = options[next];
  if (option) onChange(option.value);
  (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
}
