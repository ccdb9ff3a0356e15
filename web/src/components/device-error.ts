import { common } from "../i18n/common.ts";

export type Device = "microphone" | "camera";

/** What a reader can do about a device that the browser did not give. Takes any thrown value. */
export function deviceErrorText(error: unknown, device: Device): string {
  const { preflight } = common();
  if (!window.isSecureContext) return preflight.secureBad;
  const name = error instanceof DOMException ? error.name : "";
  if (name === "NotAllowedError") {
    return device === "camera" ? preflight.cameraBad : preflight.permissionBad;
  }
  if (name === "NotFoundError" || name === "OverconstrainedError") {
    return device === "camera" ? preflight.cameraMissing : preflight.missing;
  }
  return name === "NotReadableError" ? preflight.inUse : String(error);
}
