import type { ReactiveController, ReactiveControllerHost } from "lit";

const EVENTS = ["pointermove", "pointerdown", "wheel", "keydown", "focusin"] as const;
const RESTS_AFTER_MS = 4000;

/** Whether the user has touched nothing for some seconds: no pointer, no key, no focus. */
export class ActivityWatch implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #rests = false;

  constructor(host: ReactiveControllerHost) {
    this.#host = host;
    host.addController(this);
  }

  get rests(): boolean {
    return this.#rests;
  }

  hostConnected(): void {
    for (const name of EVENTS) addEventListener(name, this.#wake, { passive: true });
    this.#wake();
  }

  hostDisconnected(): void {
    for (const name of EVENTS) removeEventListener(name, this.#wake);
    clearTimeout(this.#timer);
  }

  readonly #wake = (): void => {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#set(true), RESTS_AFTER_MS);
    this.#set(false);
  };

  #set(rests: boolean): void {
    if (rests === this.#rests) return;
    this.#rests = rests;
    this.#host.requestUpdate();
  }
}
