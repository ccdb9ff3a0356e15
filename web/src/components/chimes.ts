import { type Chime, playChime } from "../audio/chimes.ts";
import type { SessionState } from "../session/session-state.ts";
import { devices } from "../settings/devices.ts";

let context: AudioContext | null = null;

/** Enables chimes. Browsers allow audio only after a click or a key press, so call it in one. */
export function allowChimes(): void {
  context ??= new AudioContext();
  void context.resume();
}

/** Silent if the user has not interacted with the page. */
export function chime(which: Chime): void {
  if (context?.state === "running") playChime(context, which);
}

type CallStatus = Pick<SessionState, "phase" | "queue">;

/** Plays a chime when the user moves up in the queue or a worker is assigned. */
export function chimeInQueue(before: CallStatus, now: CallStatus): void {
  const which = queueChime(before, now);
  if (which && devices.value.chimes) chime(which);
}

/** Returns the chime for a change, or null if the user left the queue. */
export function queueChime(before: CallStatus, now: CallStatus): Chime | null {
  if (before.queue === null) return null;
  if (now.queue === null) return now.phase === "preparing" ? "ready" : null;
  return now.queue.position < before.queue.position ? "closer" : null;
}
