const NOT_CONNECTED = new Set(["NotFoundError", "OverconstrainedError"]);

/**
 * Opens a device. One that was selected but is not connected is replaced by the default one. Rejects
 * with the browser's DOMException.
 */
export async function openStream(
  deviceId: string | undefined,
  constraints: (deviceId: string | undefined) => MediaStreamConstraints,
): Promise<MediaStream> {
  const devices = navigator.mediaDevices;
  try {
    return await devices.getUserMedia(constraints(deviceId));
  } catch (error) {
    if (!deviceId || !NOT_CONNECTED.has((error as DOMException).name)) throw error;
    return devices.getUserMedia(constraints(undefined));
  }
}
