import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { type ServiceStatus, serviceStatus } from "../api/catalog.ts";
import { capabilities } from "../shell/capabilities.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { aboutStrings } from "./about-strings.ts";

interface GateDecision {
  readonly tone: "good" | "caution" | "danger" | "";
  readonly text: string;
}

/** Whether a session can start now. */
@customElement("an-service-badge")
export class ServiceBadge extends BaseElement {
  readonly #able = new StoreController(this, capabilities);

  @state() private status: ServiceStatus | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("visibilitychange", this.#look);
    this.#look();
  }

  override disconnectedCallback(): void {
    document.removeEventListener("visibilitychange", this.#look);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const { tone, text } = verdict(this.status);
    const able = this.#able.value;
    const model = able?.simulated ? aboutStrings().simulated : able?.model;
    return html`<span class="badge dot ${able?.simulated ? "caution" : tone}" role="status"
      >${text}${model ? html` · <span class="truncate">${model}</span>` : nothing}</span
    >`;
  }

  readonly #look = (): void => {
    if (document.hidden) return;
    serviceStatus().then(
      (status) => {
        this.status = status;
      },
      () => {
        this.status = null; // the shell shows the error
      },
    );
  };
}

function verdict(status: ServiceStatus | null): GateDecision {
  const t = aboutStrings();
  if (status === null) return { tone: "", text: t.unknown };
  const places = status.slots_total - status.slots_used;
  if (status.slots_total === 0 && status.loading_workers > 0) {
    return { tone: "caution", text: t.loading };
  }
  if (status.slots_total === 0) return { tone: "danger", text: t.down };
  if (places > 0 && status.queue_length === 0) return { tone: "good", text: t.free(places) };
  return { tone: "caution", text: t.full(status.queue_length) };
}
