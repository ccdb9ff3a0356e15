import type { Call, CallState } from "./call.ts";
import type { CallSettings, CallValues } from "./call-settings.ts";

export const TABS = ["transcript", "sound", "measures", "settings"] as const;
export type PanelTab = (typeof TABS)[number];

/** What a reader can do with a call that goes on. */
export interface TalkVerbs {
  hangUp(): void;
  mute(): void;
  pause(): void;
  hush(): void;
  camera(): void;
  flip(): void;
  retry(): void;
  useMicrophone(): void;
  monitor(on: boolean): void;
  /** A device was chosen: `microphone`, `speaker`, `camera` or `noiseSuppression`. */
  changed(device: string): void;
}

/** What a reader can do on a call page. */
export interface CallVerbs extends TalkVerbs {
  start(): void;
  check(): void;
  hear(from: "microphone" | "file"): void;
  choose(file: File): void;
  open(tab: PanelTab): void;
}

/** What the parts of the page render. */
export interface CallView {
  readonly call: Call;
  readonly state: CallState;
  readonly settings: CallSettings;
  readonly values: CallValues;
  readonly verbs: CallVerbs;
  readonly tab: PanelTab;
  /** What the next call hears. */
  readonly source: "microphone" | "file";
  readonly file: File | null;
}

/** A call is going on, or about to. */
export function isBusy({ talk }: CallState): boolean {
  return talk.phase !== "idle" && talk.phase !== "ended";
}
