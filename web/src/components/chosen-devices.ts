import type { AudioEngineOptions } from "../audio/audio-engine.ts";
import { MICROPHONE_DEFAULTS } from "../audio/microphone-constraints.ts";
import { devices } from "../settings/devices.ts";

/** What the reader has chosen in `an-device-select`, for a conversation's desk. */
export function selectedDevices(): AudioEngineOptions {
  const { microphone, speaker, noiseSuppression } = devices.value;
  return {
    microphone: { ...MICROPHONE_DEFAULTS, deviceId: microphone ?? undefined, noiseSuppression },
    speakerId: speaker ?? undefined,
  };
}
