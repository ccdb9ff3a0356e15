import { flag, type MessageOf, number, or, shape, text } from "./message-reader.ts";

const place = {
  ticket_id: text,
  position: number,
  queue_length: number,
  estimated_wait_s: or(number, null),
  reason: or(text, null),
};

/**
 * Queue messages of all protocols except realtime. Times are in seconds, positions count from 1.
 * Without an estimate there is a `reason`: no worker can take the session. Updates after
 * `queue_done` mean that the worker was lost, until position 0. `stale`: the server cannot read the
 * queue.
 */
export const queued = shape("queued", place);
export const queueUpdate = shape("queue_update", { ...place, stale: or(flag, false) });
export const queueDone = shape("queue_done", {});

/** `code` is for programs, `message` for people. `field` names the invalid field of a message. */
export const error = shape("error", {
  message: text,
  code: or(text, "unknown"),
  field: or(text, null),
});

/**
 * A limit is near. `limit` is `duration` or `context`. For `context` the seconds are an estimate.
 */
export const notice = shape("notice", { limit: text, seconds_left: number });

export type Notice = MessageOf<typeof notice>;
export type Queued = MessageOf<typeof queued>;
export type QueueUpdate = MessageOf<typeof queueUpdate>;
export type ErrorMessage = MessageOf<typeof error>;
