import { flag, optional, range, Settings } from "../state/store.ts";
import type { AudioEngine, AudioEngineOptions } from "./audio-engine.ts";
import { MICROPHONE_DEFAULTS, Microphone } from "./capture.ts";

export interface Devices {
  microphones: MediaDeviceInfo[];
  speakers: MediaDeviceInfo[];
  cameras: MediaDeviceInfo[];
}

/**
 * Lists devices. Names are empty until the user grants permission. `speakers` is empty if the
 * browser cannot select one.
 */
export async function listDevices(): Promise<Devices> {
  const all = await navigator.mediaDevices.enumerateDevices();
  const ofKind = (kind: MediaDeviceKind): MediaDeviceInfo[] =>
    all.filter((device) => device.kind === kind && device.deviceId !== "");
  return {
    microphones: ofKind("audioinput"),
    speakers: ofKind("audiooutput"),
    cameras: ofKind("videoinput"),
  };
}

/** Calls `listener` when devices are connected or removed. Returns a function that stops this. */
export function watchDevices(listener: (devices: Devices) => void): () => void {
  const changed = (): void => void listDevices().then(listener);
  navigator.mediaDevices.addEventListener("devicechange", changed);
  return () => navigator.mediaDevices.removeEventListener("devicechange", changed);
}

/** Selected devices, shared by all pages. Null selects the system default. */
export const devices = new Settings("devices", 1, {
  microphone: optional(256),
  speaker: optional(256),
  camera: optional(256),
  noiseSuppression: flag(true),
  chimes: flag(true),
});

/** Returns the devices selected in `an-device-select` as options for the audio engine. */
export function selectedDevices(): AudioEngineOptions {
  const { microphone, speaker, noiseSuppression } = devices.value;
  return {
    microphone: { ...MICROPHONE_DEFAULTS, deviceId: microphone ?? undefined, noiseSuppression },
    speakerId: speaker ?? undefined,
  };
}

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
