/** What the keyboard can do on a call page. */
export type KeyVerb = "mute" | "pause" | "listen" | "camera" | "end";

/** As in `KeyboardEvent.code`: where a key lies, whatever the alphabet. */
export const KEY_CODES: Readonly<Record<KeyVerb, string>> = {
  mute: "Space",
  pause: "KeyP",
  listen: "KeyL",
  camera: "KeyC",
  end: "End",
};

const OWN_KEYS =
  "input, textarea, select, button, a, summary, audio, video, dialog, [contenteditable]";

/** Null: the key means something else where it was pressed, or nothing. */
export function keyVerb(event: KeyboardEvent): KeyVerb | null {
  const modified = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
  if (modified || event.repeat || event.defaultPrevented) return null;
  if (event.target instanceof Element && event.target.closest(OWN_KEYS)) return null;
  const entries = Object.entries(KEY_CODES) as [KeyVerb, string][];
  return entries.find(([, code]) => code === event.code)?.[0] ?? null;
}
