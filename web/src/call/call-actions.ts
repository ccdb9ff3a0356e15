import { devices } from "../audio/audio-settings.ts";
import { deviceErrorText } from "../components/device-select.ts";
import { common } from "../i18n/common.ts";
import { toast } from "../ui/toasts.ts";
import type { CallController, CallState } from "./call-controller.ts";
import type { CallSettings, CallValues } from "./call-settings.ts";
import type { OpeningName } from "./opening-texts.ts";

export type Panel = "transcript" | "settings" | "developer";
export const DEVELOPER_TABS = ["metrics", "audio", "events"] as const;
export type DeveloperTab = (typeof DEVELOPER_TABS)[number];

/** Actions during a call. */
interface SessionActions {
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
  /** Starts a call, with an opening instead of the user's instructions and greeting. */
  start(opening?: OpeningName): void;
  /** Opens or closes the device check. */
  check(open: boolean): void;
  selectSource(from: "microphone" | "file"): void;
  selectFile(file: File): void;
  /** Null closes the open panel. */
  show(panel: Panel | null): void;
  selectTab(tab: DeveloperTab): void;
  /** Moves the call into a small window, or back. */
  pictureInPicture(): void;
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
  /** Whether the call is in a small window instead of the stage. */
  readonly away: boolean;
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

/** The actions of a running call. */
export function sessionActions(call: CallController, settings: () => CallSettings): SessionActions {
  const sessionState = () => call.state.value.sessionState;
  const openCamera = (): void => void call.openCamera(settings().value);
  return {
    endCall: () => call.endCall(),
    retry: () => call.session?.retryNow(),
    interrupt: () => call.session?.forceListen(),
    mute: () => call.session?.setMuted(!sessionState().muted),
    pause: () => {
      if (sessionState().phase === "paused") call.session?.resume();
      else call.session?.pause();
    },
    camera: () => (call.camera.state.value.stream === null ? openCamera() : call.closeCamera()),
    switchCamera: () => {
      devices.update({ camera: null }); // select by direction instead of a device
      const { facing } = settings().value;
      settings().update({ facing: facing === "user" ? "environment" : "user" });
      openCamera();
    },
    useMicrophone: () => void switchToMicrophone(call),
    changed: (device) => {
      const { file } = call.state.value;
      if (device === "speaker") void useSpeaker(call);
      else if (device === "camera") call.camera.state.value.stream && openCamera();
      else if (file === null && call.session?.audio) void switchToMicrophone(call);
    },
    monitor: (on) => call.monitor(on),
  };
}

/** Returns the action of a key, or null if no call is active. */
export function actionForKey(
  actions: SessionActions,
  call: CallController,
  key: KeyAction,
): (() => void) | null {
  const { phase } = call.state.value.sessionState;
  if (phase !== "active" && phase !== "paused") return null;
  const all = {
    mute: actions.mute,
    pause: actions.pause,
    listen: actions.interrupt,
    end: actions.endCall,
  };
  if (key === "camera") return call.kind === "omni" ? actions.camera : null;
  return all[key];
}

async function switchToMicrophone(call: CallController): Promise<void> {
  try {
    await call.switchToMicrophone();
  } catch (error) {
    const remedy = deviceErrorText(error, "microphone");
    toast({ tone: "caution", title: common().deviceCheck.unusable, remedy });
  }
}

async function useSpeaker(call: CallController): Promise<void> {
  try {
    await call.session?.audio?.speaker.setSpeaker(devices.value.speaker ?? "");
  } catch (error) {
    toast({ tone: "caution", title: common().errors.failed, remedy: String(error) });
  }
}

/** Keyboard shortcuts of a call page. */
type KeyAction = "mute" | "pause" | "listen" | "camera" | "end";

/** Values of `KeyboardEvent.code`, which do not depend on the keyboard layout. */
const KEY_CODES: Readonly<Record<KeyAction, string>> = {
  mute: "Space",
  pause: "KeyP",
  listen: "KeyL",
  camera: "KeyC",
  end: "Shift+KeyX",
};

const WRITING = "input, textarea, select, dialog, [contenteditable]";
const PRESSED_BY_SPACE = "button, a, summary";

/** Returns null if the focused element uses the key, or if it has no action. */
export function keyAction(event: KeyboardEvent): KeyAction | null {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return null;
  if (event.defaultPrevented || isTaken(event)) return null;
  const chord = `${event.shiftKey ? "Shift+" : ""}${event.code}`;
  const entries = Object.entries(KEY_CODES) as [KeyAction, string][];
  return entries.find(([, code]) => code === chord)?.[0] ?? null;
}

/** Returns the value for `aria-keyshortcuts`. */
export function keyName(action: KeyAction): string {
  return KEY_CODES[action].replace("Key", "");
}

function isTaken({ target, code }: KeyboardEvent): boolean {
  if (!(target instanceof Element)) return false;
  return (
    target.closest(WRITING) !== null ||
    (code === "Space" && target.closest(PRESSED_BY_SPACE) !== null)
  );
}
