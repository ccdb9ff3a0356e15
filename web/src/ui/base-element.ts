import { LitElement, type PropertyValues } from "lit";
import { language } from "../i18n/language.ts";

/**
 * What every element of ours begins with. It renders into the page itself, not into a shadow root:
 * one style sheet dresses all, labels and ids work across elements. It speaks the chosen language.
 */
export abstract class BaseElement extends LitElement {
  #leave: () => void = () => undefined;

  constructor() {
    super();
    // As it is with shadow roots: what a field inside tells is not what this element tells.
    this.addEventListener("change", (event) => {
      if (!(event instanceof CustomEvent)) event.stopImmediatePropagation();
    });
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#leave = language.subscribe(() => this.requestUpdate());
  }

  override disconnectedCallback(): void {
    this.#leave();
    super.disconnectedCallback();
  }

  /** Tell whoever uses this element; the event does not bubble. */
  protected emit<T>(name: string, detail: T): void {
    this.dispatchEvent(new CustomEvent<T>(name, { detail }));
  }
}

export type ChangedProperties<T> = PropertyValues<T>;

let last = 0;

/** An id that no other element of this page has. */
export function freshId(prefix: string): string {
  last += 1;
  return `${prefix}-${last}`;
}
