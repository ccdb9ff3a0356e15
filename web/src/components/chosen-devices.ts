import type { DeskOptions } from "../audio/audio-desk.ts";
import { MICROPHONE } from "../audio/constraints.ts";
import { devices } from "../settings/devices.ts";

/** What the reader has chosen in `an-device-choice`, for a conversation's desk. */
export function chosenDevices(): DeskOptions {
  const { microphone, speaker, noiseSuppression } = devices.value;
  return {
    microphone: { ...MICROPHONE, deviceId: microphone ?? undefined, noiseSuppression },
    speakerId: speaker ?? undefined,
  };
}
