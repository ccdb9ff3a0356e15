import type { TextLine } from "../components/transcript-text.ts";
import { median } from "../session/model-speech.ts";
import { finalLines } from "../session/transcript.ts";
import type { CallState } from "./call-controller.ts";

/** What happened in a call. Milliseconds. Null: there is nothing to tell. */
interface CallSummary {
  readonly lengthMs: number | null;
  /** Null if the model said nothing that could be interrupted. */
  readonly interruptions: number | null;
  /** From the user's first sound to the silence of the model, median. */
  readonly stopMs: number | null;
  /** From the end of the user's speech to the first sound of an answer. */
  readonly answerMs: number | null;
  readonly longestAnswerMs: number | null;
}

export function callSummary({ since, until, sessionState }: CallState): CallSummary {
  const { transcript, metrics } = sessionState;
  const { interruptions, firstAudioMedianMs, firstAudioLongestMs } = metrics;
  const spoke = transcript.some(({ role }) => role === "model") || interruptions.length > 0;
  return {
    lengthMs: since === null ? null : (until ?? performance.now()) - since,
    interruptions: spoke ? interruptions.length : null,
    stopMs: median(interruptions.filter((ms) => ms !== null)),
    answerMs: firstAudioMedianMs,
    longestAnswerMs: firstAudioLongestMs,
  };
}

/** The transcript with the times in the call, for `transcriptText`. */
export function textLines({
  since,
  sessionState,
}: Pick<CallState, "since" | "sessionState">): TextLine[] {
  return finalLines(sessionState.transcript).map(({ role, text, cut, at }) => ({
    role,
    text,
    cut,
    ...(since !== null && { atMs: at - since }),
  }));
}
