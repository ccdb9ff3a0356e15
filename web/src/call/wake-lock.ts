/**
 * Keeps the screen on, because a sleeping phone stops the microphone. Returns a function that
 * releases the lock.
 */
export function keepScreenOn(): () => void {
  let wanted = true;
  let lock: WakeLockSentinel | null = null;
  const ask = async (): Promise<void> => {
    if (!wanted || document.hidden) return;
    try {
      lock = await navigator.wakeLock.request("screen");
    } catch {
      return; // denied or not supported: the screen may turn off
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
