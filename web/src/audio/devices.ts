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
