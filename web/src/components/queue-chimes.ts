import type { Chime } from "../audio/chimes.ts";
import type { ConversationState } from "../session/conversation-state.ts";
import { devices } from "../settings/devices.ts";
import { chime } from "./chimes.ts";

type Standing = Pick<ConversationState, "phase" | "place">;

/** Let someone who waits and looks elsewhere hear that it goes on, or that it is their turn. */
export function chimeInQueue(before: Standing, now: Standing): void {
  const which = queueChime(before, now);
  if (which && devices.value.chimes) chime(which);
}

/** What a change is worth; nothing when one left the line. */
export function queueChime(before: Standing, now: Standing): Chime | null {
  if (before.place === null) return null;
  if (now.place === null) return now.phase === "preparing" ? "ready" : null;
  return now.place.position < before.place.position ? "closer" : null;
}
