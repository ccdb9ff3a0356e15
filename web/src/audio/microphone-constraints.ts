/** What to ask the browser for. */

export interface MicrophoneOptions {
  /** Of `MediaDeviceInfo`; without one the system's own choice. */
  deviceId?: string | undefined;
  echoCancellation: boolean;
  noiseSuppression: boolean;
  autoGainControl: boolean;
}

export const MICROPHONE_DEFAULTS: MicrophoneOptions = {
  echoCancellation: true,
  noiseSuppression: true,
  autoGainControl: false, // our own gain is measured in LUFS and has limits
};

/**
 * Browsers that know `"all"` cancel everything that this computer plays; older ones take the word for
 * `true` and cancel only what came over a peer connection.
 */
export function microphoneConstraints(options: MicrophoneOptions): MediaTrackConstraints {
  return {
    ...(options.deviceId ? { deviceId: { exact: options.deviceId } } : {}),
    channelCount: { ideal: 1 },
    echoCancellation: options.echoCancellation ? "all" : false,
    noiseSuppression: options.noiseSuppression,
    autoGainControl: options.autoGainControl,
  };
}

/** Whether playback must go through a peer connection for this microphone's canceller to see it. */
export function needsLoopback(settings: { echoCancellation?: boolean | string }): boolean {
  return settings.echoCancellation === true || settings.echoCancellation === "remote-only";
}
