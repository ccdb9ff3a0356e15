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
