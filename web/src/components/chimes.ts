import { type Chime, playChime } from "../audio/chimes.ts";

let context: AudioContext | null = null;

/** Let chimes be heard later: browsers allow sound only after a click or a key. Call it in one. */
export function allowChimes(): void {
  context ??= new AudioContext();
  void context.resume();
}

/** Silent where the reader has not touched the page yet. */
export function chime(which: Chime): void {
  if (context?.state === "running") playChime(context, which);
}
