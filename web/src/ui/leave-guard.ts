import type { ReactiveController, ReactiveControllerHost } from "lit";

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
