import type { CallController, CallState } from "./call-controller.ts";
import type { CallSettings, CallValues } from "./call-settings.ts";

export const TABS = ["transcript", "sound", "metrics", "settings"] as const;
export type PanelTab = (typeof TABS)[number];

/** What a reader can do with a call that goes on. */
export interface SessionActions {
  endCall(): void;
  mute(): void;
  pause(): void;
  interrupt(): void;
  camera(): void;
  switchCamera(): void;
  retry(): void;
  useMicrophone(): void;
  monitor(on: boolean): void;
  /** A device was chosen: `microphone`, `speaker`, `camera` or `noiseSuppression`. */
  changed(device: string): void;
}

/** What a reader can do on a call page. */
export interface CallActions extends SessionActions {
  start(): void;
  check(): void;
  selectSource(from: "microphone" | "file"): void;
  selectFile(file: File): void;
  open(tab: PanelTab): void;
}

/** What the parts of the page render. */
export interface CallView {
  readonly call: CallController;
  readonly state: CallState;
  readonly settings: CallSettings;
  readonly values: CallValues;
  readonly actions: CallActions;
  readonly tab: PanelTab;
  /** What the next call hears. */
  readonly source: "microphone" | "file";
  readonly file: File | null;
}

/** A call is going on, or about to. */
export function isBusy({ sessionState }: CallState): boolean {
  return sessionState.phase !== "idle" && sessionState.phase !== "ended";
}
