import { html, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { type AppSwitch, appSwitches, setAppEnabled } from "../../api/admin.ts";
import { common } from "../../i18n/common.ts";
import { showError } from "../../shell/errors.ts";
import { loadMenu } from "../../shell/menu.ts";
import { BaseElement } from "../../ui/base-element.ts";
import { toggle } from "../../ui/controls.ts";
import { named } from "./labels.ts";
import { adminStrings } from "./strings.ts";

/** Enables and disables pages and protocols. */
@customElement("an-admin-app-switches")
export class AdminAppSwitches extends BaseElement {
  @state() private all: readonly AppSwitch[] = [];

  override connectedCallback(): void {
    super.connectedCallback();
    appSwitches().then(
      (all) => {
        this.all = all;
      },
      (error: unknown) => showError(error),
    );
  }

  protected override render(): TemplateResult {
    const t = adminStrings();
    return html`<section class="card stack" aria-labelledby="switches">
      <div class="stack tight">
        <h2 id="switches">${t.pages}</h2>
        <p class="small soft">${t.pagesHint}</p>
      </div>
      <div class="stack tight">${this.all.map((one) => this.#toggle(one))}</div>
    </section>`;
  }

  #toggle(one: AppSwitch): TemplateResult {
    const names = { ...common().apps, realtime: adminStrings().realtime };
    return toggle({
      label: named(names, one.app_id),
      hint: one.route,
      checked: one.enabled,
      onChange: (enabled) => void this.#turn(one, enabled),
    });
  }

  /** Shows the server's state, also after a failed change. */
  async #turn(one: AppSwitch, enabled: boolean): Promise<void> {
    try {
      const now = await setAppEnabled(one.app_id, enabled);
      this.all = this.all.map((other) => (other.app_id === now.app_id ? now : other));
      await loadMenu();
    } catch (error) {
      showError(error);
      this.requestUpdate();
    }
  }
}
