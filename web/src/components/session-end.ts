import { common } from "../i18n/common.ts";
import type { Problem, SessionEnd } from "../session/session-state.ts";
import { deviceErrorText } from "./device-error.ts";

/** What happened, and what a reader can do about it. */
export interface ProblemText {
  readonly title: string;
  readonly remedy: string;
}

/** Of what went wrong on the way. Where we have no remedy, it is what the server says. */
export function problemText({ code, message }: Problem): ProblemText {
  const known: Readonly<Record<string, ProblemText>> = common().endings;
  const { title, remedy } = known[code] ?? { title: common().errors.failed, remedy: "" };
  return { title, remedy: remedy || message };
}

/** Of a conversation's end; null where the user wanted it. */
export function sessionEndText(end: SessionEnd): ProblemText | null {
  const { endings, preflight } = common();
  switch (end.by) {
    case "user":
      return null;
    case "timeout":
      return endings.timeout;
    case "device":
      return { title: preflight.unusable, remedy: deviceErrorText(end.cause, "microphone") };
    default:
      return problemText(end);
  }
}
