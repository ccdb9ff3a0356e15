import type { AudioDesk } from "../audio/audio-desk.ts";
import { Microphone } from "../audio/microphone.ts";
import { flag, range } from "../settings/fields.ts";
import { Settings } from "../settings/settings.ts";

/** How loud each side is, the same on all pages; dB. */
export const mixer = new Settings("mixer", 1, {
  userDb: range(0, -24, 12),
  modelDb: range(0, -24, 12),
  /** Speech is brought to -23 LUFS. */
  userAuto: flag(true),
  modelAuto: flag(false),
});

/** A file is played as it is: only a microphone is levelled. */
export function applyMixer({ capture, speaker, source }: AudioDesk): void {
  const { userDb, modelDb, userAuto, modelAuto } = mixer.value;
  capture.strip.faderDb = userDb;
  capture.strip.autoGain = userAuto && source instanceof Microphone;
  speaker.strip.faderDb = modelDb;
  speaker.strip.autoGain = modelAuto;
}
