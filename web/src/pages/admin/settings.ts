import { html, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { appSwitches, estimates, setAppEnabled, setBaselines } from "../../api/admin.ts";
import type { AppInfo, EtaConfig, EtaReport, SessionKind } from "../../api/answers.ts";
import { common } from "../../i18n/common.ts";
import { formatNumber } from "../../i18n/language.ts";
import { showError } from "../../shell/errors.ts";
import { loadMenu } from "../../shell/header.ts";
import { BaseElement, freshId } from "../../ui/base-element.ts";
import { toggle } from "../../ui/controls.ts";
import { inactive } from "../../ui/inactive.ts";
import { toast } from "../../ui/toasts.ts";
import { adminStrings, kindName, named, waitNote } from "./strings.ts";

/** Enables and disables pages and protocols. */
@customElement("an-admin-app-switches")
export class AdminAppSwitches extends BaseElement {
  @state() private all: readonly AppInfo[] | null = null;
  @state() private failed = false;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#load();
  }

  async #load(): Promise<void> {
    this.failed = false;
    try {
      this.all = await appSwitches();
    } catch (error) {
      this.failed = true;
      showError(error);
    }
  }

  protected override render(): TemplateResult {
    const t = adminStrings();
    return html`<section class="card stack" aria-labelledby="switches">
      <div class="stack tight">
        <h2 id="switches">${t.pages}</h2>
        <p class="small soft">${t.pagesHint}</p>
      </div>
      ${this.all ? html`<div class="stack tight">${this.all.map((one) => this.#toggle(one))}</div>` : waitNote(this.failed, () => void this.#load())}
    </section>`;
  }

  #toggle(one: AppInfo): TemplateResult {
    const names = { ...common().apps, realtime: adminStrings().realtime };
    return toggle({
      label: named(names, one.app_id),
      hint: one.route,
      checked: one.enabled,
      onChange: (enabled) => void this.#turn(one, enabled),
    });
  }

  /** Shows the server's state, also after a failed change. */
  async #turn(one: AppInfo, enabled: boolean): Promise<void> {
    try {
      const now = await setAppEnabled(one.app_id, enabled);
      this.all = (this.all ?? []).map((other) => (other.app_id === now.app_id ? now : other));
      await loadMenu();
    } catch (error) {
      showError(error);
      this.requestUpdate();
    }
  }
}

/** Part of the names of the fields of a kind. */
type EtaName = "chat" | "half_duplex" | "audio_duplex" | "omni_duplex" | "turns";

const ROWS: readonly (readonly [EtaName, SessionKind])[] = [
  ["chat", "chat"],
  ["half_duplex", "half_duplex_audio"],
  ["audio_duplex", "audio_duplex"],
  ["omni_duplex", "omni_duplex"],
  ["turns", "turns"],
];

/** Waiting times: configured and measured values. */
@customElement("an-admin-estimates")
export class AdminEstimates extends BaseElement {
  readonly #id = freshId("eta");

  @state() private known: EtaReport | null = null;
  @state() private failed = false;
  @state() private changed = false;
  @state() private saving = false;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#load();
  }

  async #load(): Promise<void> {
    this.failed = false;
    try {
      this.known = await estimates();
    } catch (error) {
      this.failed = true;
      showError(error);
    }
  }

  protected override render(): TemplateResult {
    const t = adminStrings();
    return html`<section class="card stack" aria-labelledby="estimates">
      <div class="stack tight">
        <h2 id="estimates">${t.estimates}</h2>
        <p class="small soft">${t.estimatesHint}</p>
      </div>
      ${this.known ? this.#form(this.known) : waitNote(this.failed, () => void this.#load())}
    </section>`;
  }

  #form(known: EtaReport): TemplateResult {
    const t = adminStrings();
    return html`<form class="stack" @submit=${this.#save} @input=${this.#compare}>
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
          value: known.ema_alpha,
          most: 1,
        })}
      </div>
      <div class="row">
        <button class="button primary" ${inactive(!this.changed || this.saving)}>${common().save}</button>
      </div>
    </form>`;
  }

  #number(
    name: keyof EtaConfig,
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

  readonly #compare = ({ currentTarget }: Event): void => {
    if (this.known === null) return;
    const { config, ema_alpha } = this.known;
    const saved: Partial<Record<string, number>> = { ...config, ema_alpha };
    const given = Object.entries(givenValues(currentTarget as HTMLFormElement));
    this.changed = given.some(([name, value]) => value !== saved[name]);
  };

  readonly #save = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const given = givenValues(event.target as HTMLFormElement);
    this.saving = true;
    try {
      this.known = await setBaselines(given);
      this.changed = false;
      toast({ tone: "good", title: adminStrings().saved });
    } catch (error) {
      showError(error);
    } finally {
      this.saving = false;
    }
  };
}

function givenValues(form: HTMLFormElement): EtaConfig {
  const all = [...new FormData(form)].map(([name, value]) => [name, Number(value)] as const);
  return Object.fromEntries(all) as unknown as EtaConfig;
}

function measured(known: EtaReport, name: EtaName): string {
  const average = known[`ema_${name}_s`];
  if (average === null) return adminStrings().unmeasured;
  return adminStrings().measured(formatNumber(average, 1), known[`ema_${name}_samples`]);
}
