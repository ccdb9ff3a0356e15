import type { ReactiveControllerHost } from "lit";
import { ApiError, enterKey, INVALID_ANSWER } from "../api/http.ts";
import { common } from "../i18n/common.ts";
import { type Toast, toast } from "../ui/toasts.ts";

/** Shows an error and what the user can do. Aborts are ignored. */
export function showError(error: unknown, title?: string): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  toast({ tone: "danger", ...errorText(error, title) });
}

/** Work of an element, which shows that it is busy. Shows errors. */
export class UserTask {
  readonly #host: ReactiveControllerHost;
  #running = 0;

  constructor(host: ReactiveControllerHost) {
    this.#host = host;
  }

  get isRunning(): boolean {
    return this.#running > 0;
  }

  /** `title` of an error. The default says only that something went wrong. */
  async run(work: () => Promise<void>, title?: string): Promise<void> {
    this.#count(1);
    try {
      await work();
    } catch (error) {
      showError(error, title);
    } finally {
      this.#count(-1);
    }
  }

  #count(by: 1 | -1): void {
    this.#running += by;
    this.#host.requestUpdate();
  }
}

function errorText(error: unknown, title: string | undefined): Omit<Toast, "tone"> {
  const { errors, key } = common();
  if (!(error instanceof ApiError)) {
    return {
      title: title ?? errors.failed,
      remedy: error instanceof Error ? error.message : String(error),
    };
  }
  if (error.status === 0) return { title: errors.unreachable, remedy: errors.unreachableRemedy };
  if (error.status === 401) {
    const action = { label: key.enter, run: () => void enterKey(error.role) };
    return { title: errors.refused, remedy: errors.refusedRemedy, action };
  }
  if (error.status === 429) return { title: errors.busy, remedy: errors.busyRemedy };
  if (error.code === "page_off") return { title: errors.pageOff, remedy: errors.pageOffRemedy };
  if (error.code === INVALID_ANSWER) {
    return {
      title: title ?? errors.invalidAnswer,
      remedy: errors.invalidAnswerRemedy(error.message),
    };
  }
  return { title: title ?? errors.failed, remedy: error.message };
}
