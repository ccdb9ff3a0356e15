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

const SETTLED_MS = 400; // browsers limit how often a page changes its address

/** The position in an address that ends with `#t=12.5`, in milliseconds. Null if it has none. */
export function linkedMs(hash: string): number | null {
  const found = /^#t=(\d+(?:\.\d+)?)$/.exec(hash);
  return found ? Number(found[1]) * 1000 : null;
}

/** The address of a position, `#t=12.5`. */
export function momentHash(atMs: number): string {
  return `#t=${Number((atMs / 1000).toFixed(1))}`;
}

/**
 * Keeps the position of a paused player in the address of the page, and seeks when the user changes
 * the address.
 */
export class DeepLink {
  readonly #replay: ReplayPlayer;
  readonly #unsubscribes: readonly (() => void)[];
  #timer = 0;
  #known: number;

  constructor(replay: ReplayPlayer) {
    this.#replay = replay;
    const linked = linkedMs(location.hash);
    if (linked !== null) replay.seek(linked);
    this.#known = replay.at.value;
    addEventListener("hashchange", this.#follow);
    this.#unsubscribes = [replay.at, replay.state].map((store) =>
      store.subscribe(() => this.#schedule()),
    );
  }

  /** Seeks without changing the address. Does nothing if the position is known already. */
  start(atMs: number): void {
    if (this.#known > 0 || this.#replay.at.value > 0) return;
    this.#known = atMs;
    this.#replay.seek(atMs);
  }

  close(): void {
    clearTimeout(this.#timer);
    removeEventListener("hashchange", this.#follow);
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
  }

  readonly #follow = (): void => {
    const linked = linkedMs(location.hash);
    if (linked !== null) this.#replay.seek(linked);
  };

  #schedule(): void {
    clearTimeout(this.#timer);
    if (this.#replay.state.value.playing) return;
    this.#timer = window.setTimeout(() => this.#write(), SETTLED_MS);
  }

  #write(): void {
    const at = this.#replay.at.value;
    if (Math.abs(at - this.#known) < 50) return;
    this.#known = at;
    history.replaceState(history.state, "", momentHash(at));
  }
}
