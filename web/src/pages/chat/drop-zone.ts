import type { ReactiveController, ReactiveControllerHost } from "lit";

/** Accepts files that are dropped anywhere in the window. */
export class DropZone implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #onFiles: (files: readonly File[]) => void;
  /** Whether a file is over the window. */
  over = false;

  constructor(host: ReactiveControllerHost, onFiles: (files: readonly File[]) => void) {
    this.#host = host;
    this.#onFiles = onFiles;
    host.addController(this);
  }

  hostConnected(): void {
    window.addEventListener("dragover", this.#onOver);
    window.addEventListener("dragleave", this.#onLeave);
    window.addEventListener("drop", this.#onDrop);
  }

  hostDisconnected(): void {
    window.removeEventListener("dragover", this.#onOver);
    window.removeEventListener("dragleave", this.#onLeave);
    window.removeEventListener("drop", this.#onDrop);
  }

  readonly #onOver = (event: DragEvent): void => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    this.#show(true);
  };

  /** Enter and leave events of nested elements overlap, so they are counted. */
  readonly #onLeave = (event: DragEvent): void => {
    if (event.relatedTarget === null) this.#show(false);
  };

  readonly #onDrop = (event: DragEvent): void => {
    const files = [...(event.dataTransfer?.files ?? [])];
    this.#show(false);
    if (files.length === 0) return;
    event.preventDefault();
    this.#onFiles(files);
  };

  #show(over: boolean): void {
    if (over === this.over) return;
    this.over = over;
    this.#host.requestUpdate();
  }
}
