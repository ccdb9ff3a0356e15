import { common } from "../i18n/common.ts";

export type Device = "microphone" | "camera";

/** Returns what the user can do if a device could not be opened. Accepts any thrown value. */
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
