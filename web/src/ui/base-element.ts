import {
  LitElement,
  type PropertyValues,
  type ReactiveController,
  type ReactiveControllerHost,
} from "lit";
import { language } from "../i18n/language.ts";
import { inTurn, isBuilt } from "./page-build.ts";
import { onOwnNodes } from "./translated-nodes.ts";

/**
 * Base class of all elements. It renders without a shadow root, so that one style sheet applies
 * and labels and ids work across elements. It renders again when the language changes.
 */
export abstract class BaseElement extends LitElement {
  #unsubscribe: () => void = () => undefined;

  constructor() {
    super();
    // Like a shadow root, keeps `change` events of inner fields inside the element.
    this.addEventListener("change", (event) => {
      if (!(event instanceof CustomEvent)) event.stopImmediatePropagation();
    });
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#unsubscribe = language.subscribe(() => this.requestUpdate());
  }

  protected override update(changed: PropertyValues): void {
    onOwnNodes(this, () => super.update(changed));
  }

  /** The first update waits for its turn while the page is built. */
  protected override scheduleUpdate(): Promise<unknown> | undefined {
    if (!this.hasUpdated && !isBuilt.value) return inTurn(() => super.scheduleUpdate());
    super.scheduleUpdate();
    return undefined;
  }

  override disconnectedCallback(): void {
    this.#unsubscribe();
    super.disconnectedCallback();
  }

  /** Emits an event that does not bubble. */
  protected emit<T>(name: string, detail: T): void {
    this.dispatchEvent(new CustomEvent<T>(name, { detail }));
  }
}

export type ChangedProperties<T> = PropertyValues<T>;

let last = 0;

/** Returns an id that is unique in the page. */
export function freshId(prefix: string): string {
  last += 1;
  return `${prefix}-${last}`;
}

/** Asks before the user leaves the page, while `busy` returns true. */
export class LeaveGuard implements ReactiveController {
  readonly #busy: () => boolean;

  constructor(host: ReactiveControllerHost, busy: () => boolean) {
    this.#busy = busy;
    host.addController(this);
  }

  hostConnected(): void {
    addEventListener("beforeunload", this.#ask);
  }

  hostDisconnected(): void {
    removeEventListener("beforeunload", this.#ask);
  }

  readonly #ask = (event: BeforeUnloadEvent): void => {
    if (this.#busy()) event.preventDefault();
  };
}
