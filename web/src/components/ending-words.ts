import { common } from "../i18n/common.ts";
import type { Ending, Problem } from "../session/conversation-state.ts";
import { deviceProblem } from "./device-problem.ts";

/** What happened, and what a reader can do about it. */
export interface ProblemWords {
  readonly title: string;
  readonly remedy: string;
}

/** Of what went wrong on the way. Where we have no remedy, it is what the server says. */
export function problemWords({ code, message }: Problem): ProblemWords {
  const known: Readonly<Record<string, ProblemWords>> = common().endings;
  const { title, remedy } = known[code] ?? { title: common().errors.failed, remedy: "" };
  return { title, remedy: remedy || message };
}

/** Of a conversation's end; null where the user wanted it. */
export function endingWords(ending: Ending): ProblemWords | null {
  const { endings, preflight } = common();
  switch (ending.by) {
    case "user":
      return null;
    case "timeout":
      return endings.timeout;
    case "device":
      return { title: preflight.unusable, remedy: deviceProblem(ending.cause, "microphone") };
    default:
      return problemWords(ending);
  }
}
