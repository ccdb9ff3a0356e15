import { type ProblemText, sessionEndText } from "../../components/session-status.ts";
import type { Answer } from "../../session/chat-exchange.ts";
import type { SessionEnd } from "../../session/session.ts";
import type { ChatChoices } from "./panel.ts";
import { chatStrings } from "./strings.ts";

/** What the user can do after a failed answer. */
export type Remedy = keyof ReturnType<typeof chatStrings>["remedies"];

/** Returns the error and its remedies, best first. Null if there is no error. */
export interface AnswerProblem extends ProblemText {
  readonly remedies: readonly Remedy[];
}

export function answerProblemOf(answer: Answer, chosen: ChatChoices): AnswerProblem | null {
  const { end } = answer.exchange;
  const text = end && sessionEndText(end);
  if (!end || !text) return null;
  const t = chatStrings();
  const refusal = refusalOf(answer, end.field ?? "", chosen);
  if (refusal === null) return { ...text, remedies: waysOn(end, chosen) };
  const server = end.message.replace(/^[\w.]+: /, "").replace(/\.$/, "");
  return { ...refusal, remedy: t.saysServer(server) };
}

/** Some engines can write but not speak. */
function waysOn({ code }: SessionEnd, { spoken }: ChatChoices): Remedy[] {
  return code === "inference_error" && spoken ? ["again", "speech"] : ["again"];
}

/**
 * `messages.1.content.0`: the model does not support this kind. With `.data`: the data is broken
 * or too large.
 */
function refusalOf(
  { refused }: Answer,
  field: string,
  chosen: ChatChoices,
): Omit<AnswerProblem, "remedy"> | null {
  const { refusals } = chatStrings();
  if (refused !== null) {
    const broken = field.endsWith(".data") && refused.type !== "text";
    const title = broken ? refusals.broken(refused.name) : refusals[refused.type];
    const deaf = refused.type === "video" && !chosen.videoSound;
    return { title, remedies: [...(deaf ? ["videoSound" as const] : []), refused.type, "edit"] };
  }
  if (field === "enable_thinking") return { title: refusals.thinking, remedies: ["thinking"] };
  if (field.startsWith("tts")) return { title: refusals.speech, remedies: ["speech"] };
  return null;
}
