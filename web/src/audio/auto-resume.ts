/**
 * Resumes an audio context that the browser suspended, for example during a phone call. Does
 * nothing while `paused` returns true. Ends when the context closes.
 */
export function resumeWhenVisible(
  context: AudioContext,
  paused: () => boolean = () => false,
): void {
  const wake = (): void => {
    const asleep = context.state !== "running" && context.state !== "closed";
    if (asleep && !paused() && document.visibilityState === "visible") void context.resume();
  };
  context.addEventListener("statechange", () => {
    wake();
    if (context.state === "closed") document.removeEventListener("visibilitychange", wake);
  });
  document.addEventListener("visibilitychange", wake);
}

const STARTS_WITHIN_MS = 8000;

/** Starts a context. Rejects with TimeoutError if the browser has no audio output to run it. */
export async function startContext(context: AudioContext): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const error = new DOMException("the browser does not start audio", "TimeoutError");
    timer = setTimeout(() => reject(error), STARTS_WITHIN_MS);
  });
  try {
    await Promise.race([context.resume(), late]);
  } finally {
    clearTimeout(timer);
  }
}
