import type { ReactiveController, ReactiveControllerHost } from "lit";

const NEAR = 120; // distance from the end of the page that still counts as the end, pixels

/** Keeps the newest text visible unless the user has scrolled up. */
export class AutoScroll implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  /** Watches for growth of the page, also by images that load late. */
  readonly #growth = new ResizeObserver(() => this.#grown());
  #height = 0;
  #top = 0;
  /** Whether the user has scrolled up. */
  away = false;

  constructor(host: ReactiveControllerHost) {
    this.#host = host;
    host.addController(this);
  }

  hostConnected(): void {
    window.addEventListener("scroll", this.#onScroll, { passive: true });
    this.#growth.observe(document.body);
  }

  hostDisconnected(): void {
    window.removeEventListener("scroll", this.#onScroll);
    this.#growth.disconnect();
  }

  /** Scrolls to the newest message and follows it. */
  show(): void {
    this.away = false;
    this.#toEnd();
    this.#host.requestUpdate();
  }

  #toEnd(): void {
    window.scrollTo({ top: document.documentElement.scrollHeight });
  }

  #grown(): void {
    const { scrollHeight } = document.documentElement;
    if (scrollHeight > this.#height && !this.away && this.#height > 0) this.#toEnd();
    this.#height = scrollHeight;
  }

  /** Only scrolling up counts as leaving the end, because the page itself may grow. */
  readonly #onScroll = (): void => {
    const { scrollHeight } = document.documentElement;
    const isFar = scrollHeight - window.scrollY - window.innerHeight > NEAR;
    const away = isFar && (this.away || window.scrollY < this.#top);
    this.#top = window.scrollY;
    if (away === this.away) return;
    this.away = away;
    this.#host.requestUpdate();
  };
}
