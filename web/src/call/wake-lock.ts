/** Keep the screen on until what is returned is called: a phone that sleeps stops the microphone. */
export function keepScreenOn(): () => void {
  let wanted = true;
  let lock: WakeLockSentinel | null = null;
  const ask = async (): Promise<void> => {
    if (!wanted || document.hidden) return;
    try {
      lock = await navigator.wakeLock.request("screen");
    } catch {
      return; // not allowed, or not known here: the user keeps the screen on
    }
    if (!wanted) await lock.release();
  };
  const seen = (): void => void ask();
  document.addEventListener("visibilitychange", seen);
  void ask();
  return () => {
    wanted = false;
    document.removeEventListener("visibilitychange", seen);
    void lock?.release();
  };
}
