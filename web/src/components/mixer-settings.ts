import type { AudioEngine } from "../audio/audio-engine.ts";
import { Microphone } from "../audio/microphone.ts";
import { flag, range } from "../settings/setting-fields.ts";
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
export function applyMixer({ capture, speaker, source }: AudioEngine): void {
  const { userDb, modelDb, userAuto, modelAuto } = mixer.value;
  capture.channel.faderDb = userDb;
  capture.channel.autoGain = userAuto && source instanceof Microphone;
  speaker.channel.faderDb = modelDb;
  speaker.channel.autoGain = modelAuto;
}
