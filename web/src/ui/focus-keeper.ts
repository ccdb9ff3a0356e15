import type { ReactiveController, ReactiveControllerHost } from "lit";

/**
 * Moves the focus to a successor when the focused element disappears, such as a button that a
 * press replaces. Otherwise the focus would return to the start of the page.
 */
export class FocusKeeper implements ReactiveController {
  readonly #host: ReactiveControllerHost & Element;
  readonly #successors: readonly string[];
  /** Also sees what the elements inside the host render. */
  readonly #changes = new MutationObserver(() => this.#check());
  #focused: Element | null = null;

  /** `successors`: selectors. The first one that is there gets the focus. */
  constructor(host: ReactiveControllerHost & Element, successors: readonly string[]) {
    this.#host = host;
    this.#successors = successors;
    host.addController(this);
    host.addEventListener("focusin", ({ target }) => {
      this.#focused = target as Element;
    });
  }

  hostConnected(): void {
    this.#changes.observe(this.#host, { childList: true, subtree: true });
  }

  hostDisconnected(): void {
    this.#changes.disconnect();
  }

  #check(): void {
    if (this.#focused === null || this.#focused.isConnected) return;
    this.#focused = null;
    // Elements inside the host may not be rendered yet, or get the focus themselves.
    requestAnimationFrame(() => {
      if (document.activeElement !== document.body) return;
      const found = this.#successors.map((one) => this.#host.querySelector<HTMLElement>(one));
      found.find((element) => element !== null)?.focus({ preventScroll: true });
    });
  }
}
