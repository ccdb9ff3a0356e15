import type { ReactiveController, ReactiveControllerHost } from "lit";

const NEAR = 120; // pixels from the end of the page that still count as being there

/** Keeps the newest words in sight, unless the reader has scrolled away from them. */
export class AutoScroll implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  /** Whatever makes the page longer: words, and pictures that show themselves late. */
  readonly #growth = new ResizeObserver(() => this.#grown());
  #height = 0;
  #top = 0;
  /** The reader looks at something older. */
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

  /** From now on the newest again. */
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

  /** Only who scrolls back goes away: a page that grows leaves the end by itself. */
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
