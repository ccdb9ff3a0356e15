import type { ReactiveController, ReactiveControllerHost } from "lit";
import type { ReplayPlayer } from "./replay-player.ts";

/** What belongs to the place that one hears; renders its host anew only when that becomes another. */
export class PlayheadValue<T> implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #replay: () => ReplayPlayer;
  readonly #pick: (atMs: number) => T;
  #leave: () => void = () => undefined;
  #value: T | null = null;

  /** `pick` must give the same object for the same thing. */
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
    this.#leave = this.#replay().at.subscribe((atMs) => {
      const value = this.#pick(atMs);
      if (Object.is(value, this.#value)) return;
      this.#value = value;
      this.#host.requestUpdate();
    });
  }

  hostDisconnected(): void {
    this.#leave();
  }
}
