import type { SessionState } from "../session/session.ts";
import { devices } from "./audio-settings.ts";

/** Short synthesised notification sounds for users who wait in the queue. */

type Chime = "closer" | "ready";

interface Note {
  hz: number;
  atS: number;
  lastsS: number;
}

const NOTES: Record<Chime, readonly Note[]> = {
  closer: [{ hz: 659.26, atS: 0, lastsS: 0.25 }],
  ready: [
    { hz: 523.25, atS: 0, lastsS: 0.3 },
    { hz: 659.26, atS: 0.12, lastsS: 0.3 },
    { hz: 783.99, atS: 0.24, lastsS: 0.6 },
  ],
};

const ATTACK_S = 0.01;
const PARTIALS: readonly [ratio: number, gain: number][] = [
  [1, 1],
  [2, 0.25],
  [3.01, 0.08], // slightly inharmonic: sounds like a bell instead of an organ
];

/** Plays through `output`, by default the destination of the context. `volume` is 0 to 1. */
function playChime(
  context: AudioContext,
  chime: Chime,
  { volume = 0.2, output = context.destination }: { volume?: number; output?: AudioNode } = {},
): void {
  for (const note of NOTES[chime]) {
    for (const [ratio, gain] of PARTIALS) {
      const startS = context.currentTime + note.atS;
      strike(context, output, {
        hz: note.hz * ratio,
        gain: gain * volume,
        startS,
        lastsS: note.lastsS,
      });
    }
  }
}

interface Strike {
  hz: number;
  gain: number;
  startS: number;
  lastsS: number;
}

function strike(
  context: AudioContext,
  output: AudioNode,
  { hz, gain, startS, lastsS }: Strike,
): void {
  const tone = new OscillatorNode(context, { frequency: hz });
  const envelope = new GainNode(context, { gain: 0 });
  envelope.gain.setValueAtTime(0, startS);
  envelope.gain.linearRampToValueAtTime(gain, startS + ATTACK_S);
  envelope.gain.setTargetAtTime(0, startS + ATTACK_S, lastsS / 4);
  tone.connect(envelope).connect(output);
  tone.start(startS);
  tone.stop(startS + lastsS * 2);
}

let context: AudioContext | null = null;

/** Enables chimes. Browsers allow audio only after a click or a key press, so call it in one. */
export function allowChimes(): void {
  if (!("AudioContext" in globalThis)) return; // the page says it when it needs audio
  context ??= new AudioContext();
  context.resume().catch(() => undefined);
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
