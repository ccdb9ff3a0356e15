import { flag, optional } from "./setting-fields.ts";
import { Settings } from "./settings.ts";

/** Which devices the pages use, the same on all; null is the system's own choice. */
export const devices = new Settings("devices", 1, {
  microphone: optional(256),
  speaker: optional(256),
  camera: optional(256),
  noiseSuppression: flag(true),
  chimes: flag(true),
});
