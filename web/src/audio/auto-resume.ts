/**
 * Phones stop a page's sound for a call or another app: take it up again when the page is back, unless it
 * rests because it is meant to. Ends with the context.
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
