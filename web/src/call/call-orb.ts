import { html, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { loudnessShare } from "../components/orb-shape.ts";
import type { OrbMode } from "../components/voice-orb.ts";
import { BaseElement, type ChangedProperties } from "../ui/base-element.ts";
import type { CallController } from "./call-controller.ts";
import "../components/voice-orb.ts";

/** The orb, animated by the audio levels of both sides. */
@customElement("an-call-orb")
export class CallOrb extends BaseElement {
  #unsubscribe: () => void = () => undefined;

  @property({ attribute: false }) call: CallController | null = null;
  @property({ attribute: false }) mode: OrbMode = "idle";

  @state() private userLevel = 0;
  @state() private modelLevel = 0;

  override disconnectedCallback(): void {
    this.#unsubscribe();
    super.disconnectedCallback();
  }

  protected override willUpdate(changed: ChangedProperties<this>): void {
    if (!changed.has("call")) return;
    this.#unsubscribe();
    const leave = this.call?.on("levels", ({ user, model }) => {
      this.userLevel = loudnessShare(user.peak);
      this.modelLevel = loudnessShare(model.peak);
    });
    this.#unsubscribe = leave ?? this.#unsubscribe;
  }

  protected override render(): TemplateResult {
    return html`<an-voice-orb .mode=${this.mode} .userLevel=${this.userLevel} .modelLevel=${this.modelLevel}></an-voice-orb>`;
  }
}
