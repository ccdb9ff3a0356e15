import { flag, optional } from "./setting-fields.ts";
import { Settings } from "./settings.ts";

/** Selected devices, shared by all pages. Null selects the system default. */
export const devices = new Settings("devices", 1, {
  microphone: optional(256),
  speaker: optional(256),
  camera: optional(256),
  noiseSuppression: flag(true),
  chimes: flag(true),
});
