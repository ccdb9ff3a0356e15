import type { OrbMode } from "../components/voice-orb.ts";
import type { DuplexState } from "../session/duplex-state.ts";
import { words } from "./words.ts";

/** Where a call stands, for the eye. */
export interface Standing {
  readonly mode: OrbMode;
  readonly title: string;
  readonly hint: string;
}

export function standing(talk: DuplexState): Standing {
  const say = words().state;
  switch (talk.phase) {
    case "idle":
      return { mode: "idle", title: say.idle, hint: "" };
    case "opening":
      return { mode: "connecting", title: say.opening, hint: say.openingHint };
    case "connecting":
      return { mode: "connecting", title: say.connecting, hint: "" };
    case "queued":
      return { mode: "idle", title: say.queued, hint: "" };
    case "preparing":
      return { mode: "connecting", title: say.preparing, hint: "" };
    case "active":
      return talking(talk);
    case "paused":
      return { mode: "paused", title: say.paused, hint: say.pausedHint };
    case "stopping":
      return { mode: "ended", title: say.stopping, hint: "" };
    case "ended":
      return { mode: "ended", title: say.ended, hint: "" };
  }
}

/** For the ear: a screen reader must not talk over every turn of the model. */
export function announcement(talk: DuplexState): string {
  const say = words().state;
  if (talk.phase === "active") return talk.muted ? say.muted : say.connected;
  return talk.phase === "idle" || talk.phase === "queued" ? "" : standing(talk).title;
}

function talking({ modelSpeaks, userSpeaks, muted, transcript }: DuplexState): Standing {
  const say = words().state;
  if (modelSpeaks) {
    return { mode: "speaking", title: say.speaking, hint: muted ? say.muted : say.speakingHint };
  }
  if (muted) return { mode: "listening", title: say.muted, hint: say.mutedHint };
  if (userSpeaks) return { mode: "hearing", title: say.hearing, hint: "" };
  const hint = transcript.length === 0 ? say.listeningHint : "";
  return { mode: "listening", title: say.listening, hint };
}
