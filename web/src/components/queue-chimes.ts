import type { Chime } from "../audio/chimes.ts";
import type { SessionState } from "../session/session-state.ts";
import { devices } from "../settings/devices.ts";
import { chime } from "./chimes.ts";

type CallStatus = Pick<SessionState, "phase" | "queue">;

/** Let someone who waits and looks elsewhere hear that it goes on, or that it is their turn. */
export function chimeInQueue(before: CallStatus, now: CallStatus): void {
  const which = queueChime(before, now);
  if (which && devices.value.chimes) chime(which);
}

/** What a change is worth; nothing when one left the line. */
export function queueChime(before: CallStatus, now: CallStatus): Chime | null {
  if (before.queue === null) return null;
  if (now.queue === null) return now.phase === "preparing" ? "ready" : null;
  return now.queue.position < before.queue.position ? "closer" : null;
}
