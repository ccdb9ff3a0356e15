import { html, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import {
  type Baselines,
  type Estimates,
  type EtaName,
  estimates,
  type SessionKind,
  setBaselines,
} from "../../api/admin.ts";
import { common } from "../../i18n/common.ts";
import { formatNumber } from "../../i18n/format.ts";
import { showError } from "../../shell/errors.ts";
import { BaseElement, freshId } from "../../ui/base-element.ts";
import { toast } from "../../ui/toasts.ts";
import { kindName } from "./labels.ts";
import { adminStrings } from "./strings.ts";

const ROWS: readonly (readonly [EtaName, SessionKind])[] = [
  ["chat", "chat"],
  ["half_duplex", "half_duplex_audio"],
  ["audio_duplex", "audio_duplex"],
  ["omni_duplex", "omni_duplex"],
];

/** Estimates of waiting times: configured and measured values. */
@customElement("an-admin-estimates")
export class AdminEstimates extends BaseElement {
  readonly #id = freshId("eta");

  @state() private known: Estimates | null = null;
  @state() private saving = false;

  override connectedCallback(): void {
    super.connectedCallback();
    estimates().then(
      (known) => {
        this.known = known;
      },
      (error: unknown) => showError(error),
    );
  }

  protected override render(): TemplateResult {
    const t = adminStrings();
    return html`<section class="card stack" aria-labelledby="estimates">
      <div class="stack tight">
        <h2 id="estimates">${t.estimates}</h2>
        <p class="small soft">${t.estimatesHint}</p>
      </div>
      ${this.known ? this.#form(this.known) : html`<span class="spinner"></span>`}
    </section>`;
  }

  #form(known: Estimates): TemplateResult {
    const t = adminStrings();
    return html`<form class="stack" @submit=${this.#save}>
      <div class="estimates">
        ${ROWS.map(([name, kind]) =>
          this.#number(`eta_${name}_s`, {
            label: t.seconds(kindName(kind)),
            hint: measured(known, name),
            value: known.config[`eta_${name}_s`],
            most: 86_400,
          }),
        )}
        ${this.#number("ema_alpha", {
          label: t.alpha,
          hint: t.alphaHint,
          value: known.config.ema_alpha,
          most: 1,
        })}
      </div>
      <div class="row"><button class="button primary" ?disabled=${this.saving}>${common().save}</button></div>
    </form>`;
  }

  #number(
    name: keyof Baselines,
    spec: { label: string; hint: string; value: number; most: number },
  ): TemplateResult {
    const id = `${this.#id}-${name}`;
    return html`<div class="field">
      <label for=${id}>${spec.label}</label>
      <input
        class="input number"
        id=${id}
        name=${name}
        type="number"
        required
        step="any"
        min="0.001"
        max=${spec.most}
        aria-describedby="${id}-hint"
        .value=${String(spec.value)}
      />
      <span class="hint" id="${id}-hint">${spec.hint}</span>
    </div>`;
  }

  readonly #save = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const given = [...form].map(([name, value]) => [name, Number(value)] as const);
    this.saving = true;
    try {
      this.known = await setBaselines(Object.fromEntries(given) as unknown as Baselines);
      toast({ tone: "good", title: adminStrings().saved });
    } catch (error) {
      showError(error);
    } finally {
      this.saving = false;
    }
  };
}

function measured(known: Estimates, name: EtaName): string {
  const average = known[`ema_${name}_s`];
  if (average === null) return adminStrings().unmeasured;
  return adminStrings().measured(formatNumber(average, 1), known[`ema_${name}_samples`]);
}
