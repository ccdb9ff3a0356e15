import type { RecordingMeta } from "../../api/recordings.ts";
import { estimatedUserLine, LETTER_MS } from "../../replay/duplex-timeline.ts";
import type { SpokenLine, Timeline } from "../../replay/timeline.ts";
import {
  type OwnConversation,
  ownConversation,
  type StoredLine,
} from "../../storage/conversations.ts";
import { loadKept } from "../../storage/kept-recordings.ts";

/** A conversation from the browser's database in the form that the viewer shows. */
export interface OwnRecording {
  readonly meta: RecordingMeta;
  readonly timeline: Timeline;
  readonly title: string;
  /** Files by the names in `meta`. */
  readonly files: ReadonlyMap<string, Blob>;
}

/** What this browser has of a recording. Null if it has nothing, or no database. */
export async function ownRecording(name: string): Promise<OwnRecording | null> {
  try {
    const found = await ownConversation(name);
    return found && (await loaded(name, found));
  } catch {
    return null;
  }
}

async function loaded(name: string, found: OwnConversation): Promise<OwnRecording> {
  const files = new Map<string, Blob>();
  for (const kept of found.kept) {
    files.set(kept.type.startsWith("video") ? "own-video" : "own-audio.wav", await loadKept(kept));
  }
  const meta: RecordingMeta = {
    recording_id: name,
    session_id: found.id,
    app_type: found.kind,
    state: "complete",
    created_at: new Date(found.startedAt).toISOString(),
    duration_s: found.durationMs / 1000,
    config: {},
    replay: files.size > 0 ? "ready" : "none",
    merged_replay: files.has("own-audio.wav") ? "own-audio.wav" : null,
    merged_replay_video: files.has("own-video") ? "own-video" : null,
  };
  return { meta, timeline: ownTimeline(found), title: found.title, files };
}

function ownTimeline({ lines, durationMs }: OwnConversation): Timeline {
  return {
    lengthMs: durationMs,
    lines: lines.map((line, i) => timed(line, lines[i + 1]?.atMs ?? durationMs)),
    segments: [],
    frames: [],
    events: [],
    costs: [],
  };
}

/** The user's words arrive after their sound, and the model's before. */
function timed({ role, text, atMs }: StoredLine, nextMs: number): SpokenLine {
  if (role === "user") return estimatedUserLine(text, atMs, 0);
  const untilMs = Math.max(atMs + 1, Math.min(nextMs, atMs + LETTER_MS * text.length));
  return { role, text, atMs, untilMs };
}
