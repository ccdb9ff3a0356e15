import type { AudioEngine } from "../audio/audio-engine.ts";
import { Microphone } from "../audio/audio-source.ts";
import { flag, range, Settings } from "../settings/settings.ts";

/** Volume of each side in dB, shared by all pages. */
export const mixer = new Settings("mixer", 1, {
  userDb: range(0, -24, 12),
  modelDb: range(0, -24, 12),
  /** The automatic gain targets -23 LUFS. */
  userAuto: flag(true),
  modelAuto: flag(false),
});

/** Automatic gain applies to microphones, not to files. */
export function applyMixer({ capture, speaker, source }: AudioEngine): void {
  const { userDb, modelDb, userAuto, modelAuto } = mixer.value;
  capture.channel.faderDb = userDb;
  capture.channel.autoGain = userAuto && source instanceof Microphone;
  speaker.channel.faderDb = modelDb;
  speaker.channel.autoGain = modelAuto;
}
