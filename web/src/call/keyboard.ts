/** Keyboard shortcuts of a call page. */
export type KeyAction = "mute" | "pause" | "listen" | "camera" | "end";

/** Values of `KeyboardEvent.code`, which do not depend on the keyboard layout. */
export const KEY_CODES: Readonly<Record<KeyAction, string>> = {
  mute: "Space",
  pause: "KeyP",
  listen: "KeyL",
  camera: "KeyC",
  end: "Shift+KeyX",
};

const WRITING = "input, textarea, select, dialog, [contenteditable]";
const PRESSED_BY_SPACE = "button, a, summary";

/** Returns null if the focused element uses the key, or if it has no action. */
export function keyAction(event: KeyboardEvent): KeyAction | null {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return null;
  if (event.defaultPrevented || isTaken(event)) return null;
  const chord = `${event.shiftKey ? "Shift+" : ""}${event.code}`;
  const entries = Object.entries(KEY_CODES) as [KeyAction, string][];
  return entries.find(([, code]) => code === chord)?.[0] ?? null;
}

/** Returns the value for `aria-keyshortcuts`. */
export function keyName(action: KeyAction): string {
  return KEY_CODES[action].replace("Key", "");
}

function isTaken({ target, code }: KeyboardEvent): boolean {
  if (!(target instanceof Element)) return false;
  return (
    target.closest(WRITING) !== null ||
    (code === "Space" && target.closest(PRESSED_BY_SPACE) !== null)
  );
}
