import { html, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { type Switch, switches, turnSwitch } from "../../api/admin.ts";
import { common } from "../../i18n/common.ts";
import { loadMenu } from "../../shell/menu.ts";
import { tellProblem } from "../../shell/problem.ts";
import { toggle } from "../../ui/controls.ts";
import { Element } from "../../ui/element.ts";
import { named } from "./labels.ts";
import { words } from "./words.ts";

/** Which pages and protocols are on. */
@customElement("an-admin-switches")
export class AdminSwitches extends Element {
  @state() private all: readonly Switch[] = [];

  override connectedCallback(): void {
    super.connectedCallback();
    switches().then(
      (all) => {
        this.all = all;
      },
      (error: unknown) => tellProblem(error),
    );
  }

  protected override render(): TemplateResult {
    const say = words();
    return html`<section class="card stack" aria-labelledby="switches">
      <div class="stack tight">
        <h2 id="switches">${say.pages}</h2>
        <p class="small soft">${say.pagesHint}</p>
      </div>
      <div class="stack tight">${this.all.map((one) => this.#toggle(one))}</div>
    </section>`;
  }

  #toggle(one: Switch): TemplateResult {
    const names = { ...common().apps, realtime: words().realtime };
    return toggle({
      label: named(names, one.app_id),
      hint: one.route,
      checked: one.enabled,
      onChange: (enabled) => void this.#turn(one, enabled),
    });
  }

  /** The switch stands as the server says, also when it says no. */
  async #turn(one: Switch, enabled: boolean): Promise<void> {
    try {
      const now = await turnSwitch(one.app_id, enabled);
      this.all = this.all.map((other) => (other.app_id === now.app_id ? now : other));
      await loadMenu();
    } catch (error) {
      tellProblem(error);
      this.requestUpdate();
    }
  }
}
