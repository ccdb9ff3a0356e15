export interface Devices {
  microphones: MediaDeviceInfo[];
  speakers: MediaDeviceInfo[];
  cameras: MediaDeviceInfo[];
}

/** Names are empty until the user has permitted a device of the kind. Speakers: none where no choice is. */
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

/** Calls back with every change of what is plugged in; call what is returned to stop. */
export function watchDevices(listener: (devices: Devices) => void): () => void {
  const changed = (): void => void listDevices().then(listener);
  navigator.mediaDevices.addEventListener("devicechange", changed);
  return () => navigator.mediaDevices.removeEventListener("devicechange", changed);
}
