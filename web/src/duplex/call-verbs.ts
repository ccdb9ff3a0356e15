import { deviceProblem } from "../components/device-problem.ts";
import { common } from "../i18n/common.ts";
import { devices } from "../settings/devices.ts";
import { toast } from "../ui/toasts.ts";
import type { Call } from "./call.ts";
import type { CallSettings } from "./call-settings.ts";
import type { KeyVerb } from "./keys.ts";
import type { TalkVerbs } from "./view.ts";

/** What can be done with a call while it goes on. */
export function talkVerbs(call: Call, settings: CallSettings): TalkVerbs {
  const talk = () => call.state.value.talk;
  const look = (): void => void call.look(settings.value);
  return {
    hangUp: () => call.hangUp(),
    retry: () => call.session?.retryNow(),
    hush: () => call.session?.forceListen(),
    mute: () => call.session?.setMuted(!talk().muted),
    pause: () => {
      if (talk().phase === "paused") call.session?.resume();
      else call.session?.pause();
    },
    camera: () => (call.camera.state.value.stream === null ? look() : call.lookAway()),
    flip: () => {
      devices.update({ camera: null }); // a direction, not a certain device
      settings.update({ facing: settings.value.facing === "user" ? "environment" : "user" });
      look();
    },
    useMicrophone: () => void hearMicrophone(call),
    changed: (device) => {
      const { file } = call.state.value;
      if (device === "speaker") void useSpeaker(call);
      else if (device === "camera") call.camera.state.value.stream && look();
      else if (file === null && call.session?.desk) void hearMicrophone(call);
    },
    monitor: (on) => call.monitor(on),
  };
}

/** Which verb a key stands for now; null while no call goes on. */
export function verbForKey(verbs: TalkVerbs, call: Call, key: KeyVerb): (() => void) | null {
  const { phase } = call.state.value.talk;
  if (phase !== "active" && phase !== "paused") return null;
  const all = { mute: verbs.mute, pause: verbs.pause, listen: verbs.hush, end: verbs.hangUp };
  if (key === "camera") return call.kind === "omni" ? verbs.camera : null;
  return all[key];
}

async function hearMicrophone(call: Call): Promise<void> {
  try {
    await call.hearMicrophone();
  } catch (error) {
    const remedy = deviceProblem(error, "microphone");
    toast({ tone: "caution", title: common().preflight.unusable, remedy });
  }
}

async function useSpeaker(call: Call): Promise<void> {
  try {
    await call.session?.desk?.speaker.setSpeaker(devices.value.speaker ?? "");
  } catch (error) {
    toast({ tone: "caution", title: common().errors.failed, remedy: String(error) });
  }
}
