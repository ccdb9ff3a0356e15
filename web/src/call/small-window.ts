import {
  type ReactiveController,
  type ReactiveControllerHost,
  render,
  type TemplateResult,
} from "lit";
import { FocusKeeper } from "../ui/focus-keeper.ts";
import { PressGuard } from "../ui/press-guard.ts";

/** https://wicg.github.io/document-picture-in-picture/, which TypeScript does not declare. */
interface DocumentPictureInPicture {
  requestWindow(options: { width: number; height: number }): Promise<Window>;
}

const SIZE = { width: 400, height: 320 };

/** A small window that stays above all others. It has the styles of the page and shows a template. */
export class SmallWindow implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  #window: Window | null = null;

  constructor(host: ReactiveControllerHost) {
    this.#host = host;
    host.addController(this);
  }

  /** Whether the browser has such windows. */
  static get supported(): boolean {
    return pictureInPicture() !== undefined;
  }

  get isOpen(): boolean {
    return this.#window !== null;
  }

  hostDisconnected(): void {
    this.close();
  }

  /** Call it in a user gesture. Rejects with the browser's DOMException. The host then renders into it. */
  async open(): Promise<void> {
    const opened = await pictureInPicture()?.requestWindow(SIZE);
    if (!opened) return;
    copyStyles(document, opened.document);
    new FocusKeeper(opened.document);
    new PressGuard(opened.document);
    opened.addEventListener("pagehide", () => {
      if (this.#window === opened) this.#window = null;
      this.#host.requestUpdate();
    });
    this.#window = opened;
    this.#host.requestUpdate();
  }

  close(): void {
    this.#window?.close();
  }

  /** Shows it if the window is open. Elements are created for the document of the page, which defines them. */
  show(content: () => TemplateResult): void {
    if (this.#window) render(content(), this.#window.document.body);
  }
}

function pictureInPicture(): DocumentPictureInPicture | undefined {
  return (window as { documentPictureInPicture?: DocumentPictureInPicture })
    .documentPictureInPicture;
}

function copyStyles(from: Document, to: Document): void {
  const { lang, dataset } = from.documentElement;
  to.title = from.title;
  to.documentElement.lang = lang;
  Object.assign(to.documentElement.dataset, dataset);
  for (const sheet of from.querySelectorAll("link[rel=stylesheet], style"))
    to.head.append(to.importNode(sheet, true));
}
