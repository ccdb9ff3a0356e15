import { html, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import { type ServiceStatus, serviceStatus } from "../../api/catalog.ts";
import { Element } from "../../ui/element.ts";
import { words } from "./words.ts";

interface Verdict {
  readonly tone: "good" | "caution" | "danger" | "";
  readonly text: string;
}

/** Whether a conversation could start right now. */
@customElement("an-service-badge")
export class ServiceBadge extends Element {
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
    return html`<span class="badge dot ${tone}" role="status">${text}</span>`;
  }

  readonly #look = (): void => {
    if (document.hidden) return;
    serviceStatus().then(
      (status) => {
        this.status = status;
      },
      () => {
        this.status = null; // the shell has told of it
      },
    );
  };
}

function verdict(status: ServiceStatus | null): Verdict {
  const say = words();
  if (status === null) return { tone: "", text: say.unknown };
  const places = status.slots_total - status.slots_used;
  if (status.slots_total === 0 && status.loading_workers > 0) {
    return { tone: "caution", text: say.loading };
  }
  if (status.slots_total === 0) return { tone: "danger", text: say.down };
  if (places > 0 && status.queue_length === 0) return { tone: "good", text: say.free(places) };
  return { tone: "caution", text: say.full(status.queue_length) };
}
