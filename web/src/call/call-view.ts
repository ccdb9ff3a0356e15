import type { CallController, CallState } from "./call-controller.ts";
import type { CallSettings, CallValues } from "./call-settings.ts";

export type Panel = "transcript" | "settings" | "developer";
export const DEVELOPER_TABS = ["metrics", "audio", "events"] as const;
export type DeveloperTab = (typeof DEVELOPER_TABS)[number];

/** Actions during a call. */
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
  /** The user selected a device: `microphone`, `speaker`, `camera` or `noiseSuppression`. */
  changed(device: string): void;
}

/** All actions of a call page. */
export interface CallActions extends SessionActions {
  start(): void;
  /** Opens or closes the device check. */
  check(open: boolean): void;
  selectSource(from: "microphone" | "file"): void;
  selectFile(file: File): void;
  /** Null closes the open panel. */
  show(panel: Panel | null): void;
  selectTab(tab: DeveloperTab): void;
}

/** The data that the parts of the page render. */
export interface CallView {
  readonly call: CallController;
  readonly state: CallState;
  readonly settings: CallSettings;
  readonly values: CallValues;
  readonly actions: CallActions;
  readonly panel: Panel | null;
  readonly tab: DeveloperTab;
  /** Whether the controls are hidden because nothing was touched for some seconds. */
  readonly faded: boolean;
  /** Whether the device check is open. */
  readonly checking: boolean;
  /** Audio source of the next call. */
  readonly source: "microphone" | "file";
  readonly file: File | null;
}

/** Whether a call is active or starting. */
export function isBusy({ sessionState }: CallState): boolean {
  return sessionState.phase !== "idle" && sessionState.phase !== "ended";
}
