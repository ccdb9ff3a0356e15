import type { ReactiveController, ReactiveControllerHost } from "lit";

const NEAR = 120; // pixels from the end of the page that still count as being there

/** Keeps the newest words in sight, unless the reader has scrolled away from them. */
export class Tail implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  #height = 0;
  /** The reader looks at something older. */
  away = false;

  constructor(host: ReactiveControllerHost) {
    this.#host = host;
    host.addController(this);
  }

  hostConnected(): void {
    window.addEventListener("scroll", this.#onScroll, { passive: true });
  }

  hostDisconnected(): void {
    window.removeEventListener("scroll", this.#onScroll);
  }

  /** After this rendering, and after that of the elements in it. */
  hostUpdated(): void {
    requestAnimationFrame(() => {
      const { scrollHeight } = document.documentElement;
      if (scrollHeight > this.#height && !this.away && this.#height > 0) this.#toEnd();
      this.#height = scrollHeight;
    });
  }

  /** From now on the newest again. */
  show(): void {
    this.away = false;
    this.#toEnd();
    this.#host.requestUpdate();
  }

  #toEnd(): void {
    window.scrollTo({ top: document.documentElement.scrollHeight });
  }

  readonly #onScroll = (): void => {
    const { scrollHeight } = document.documentElement;
    const away = scrollHeight - window.scrollY - window.innerHeight > NEAR;
    if (away === this.away) return;
    this.away = away;
    this.#host.requestUpdate();
  };
}
