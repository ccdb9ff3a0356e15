import type { ReactiveController, ReactiveControllerHost } from "lit";
import type { ReplayPlayer } from "../../components/replay-player.ts";

/** The value at the playhead. Renders its host only when the value changes. */
export class PlayheadValue<T> implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #replay: () => ReplayPlayer;
  readonly #pick: (atMs: number) => T;
  #unsubscribe: () => void = () => undefined;
  #value: T | null = null;

  /** `pick` must return the same object for the same value. */
  constructor(host: ReactiveControllerHost, replay: () => ReplayPlayer, pick: (atMs: number) => T) {
    this.#host = host;
    this.#replay = replay;
    this.#pick = pick;
    host.addController(this);
  }

  get value(): T {
    return this.#pick(this.#replay().at.value);
  }

  hostConnected(): void {
    this.#value = this.value;
    this.#unsubscribe = this.#replay().at.subscribe((atMs) => {
      const value = this.#pick(atMs);
      if (Object.is(value, this.#value)) return;
      this.#value = value;
      this.#host.requestUpdate();
    });
  }

  hostDisconnected(): void {
    this.#unsubscribe();
  }
}
