import { common } from "../i18n/common.ts";

export type Device = "microphone" | "camera";

/** Returns what the user can do if a device could not be opened. Accepts any thrown value. */
export function deviceErrorText(error: unknown, device: Device): string {
  const { deviceCheck } = common();
  if (!window.isSecureContext) return deviceCheck.secureBad;
  const name = error instanceof DOMException ? error.name : "";
  if (name === "NotAllowedError") {
    return device === "camera" ? deviceCheck.cameraBad : deviceCheck.permissionBad;
  }
  if (name === "NotFoundError" || name === "OverconstrainedError") {
    return device === "camera" ? deviceCheck.cameraMissing : deviceCheck.missing;
  }
  if (name === "TimeoutError") return deviceCheck.noOutput;
  return name === "NotReadableError" ? deviceCheck.inUse : String(error);
}
