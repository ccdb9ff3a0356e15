import type { AudioEngineOptions } from "../audio/audio-engine.ts";
import { MICROPHONE_DEFAULTS } from "../audio/microphone.ts";
import { devices } from "../settings/devices.ts";

/** Returns the devices selected in `an-device-select` as options for the audio engine. */
export function selectedDevices(): AudioEngineOptions {
  const { microphone, speaker, noiseSuppression } = devices.value;
  return {
    microphone: { ...MICROPHONE_DEFAULTS, deviceId: microphone ?? undefined, noiseSuppression },
    speakerId: speaker ?? undefined,
  };
}
