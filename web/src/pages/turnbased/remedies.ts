import { endingWords, type ProblemWords } from "../../components/ending-words.ts";
import type { Answer } from "../../session/chat-request.ts";
import type { Ending } from "../../session/conversation-state.ts";
import type { Chosen } from "./settings.ts";
import { words } from "./words.ts";

/** What can be done about an answer that did not come. */
export type Remedy = keyof ReturnType<typeof words>["remedies"];

/** What went wrong, and ways out of it, the best one first; null where nothing did. */
export interface Trouble extends ProblemWords {
  readonly remedies: readonly Remedy[];
}

export function troubleOf(answer: Answer, chosen: Chosen): Trouble | null {
  const { ending } = answer.exchange;
  const told = ending && endingWords(ending);
  if (!ending || !told) return null;
  const say = words();
  const refusal = refusalOf(answer, ending.field ?? "", chosen);
  if (refusal === null) return { ...told, remedies: waysOn(ending, chosen) };
  const server = ending.message.replace(/^[\w.]+: /, "").replace(/\.$/, "");
  return { ...refusal, remedy: say.saysServer(server) };
}

/** An engine may be able to write and not to speak. */
function waysOn({ code }: Ending, { spoken }: Chosen): Remedy[] {
  return code === "inference_error" && spoken ? ["again", "speech"] : ["again"];
}

/** `messages.1.content.0`: the model has no sense for it; with `.data`: it is broken or too large. */
function refusalOf(
  { refused }: Answer,
  field: string,
  chosen: Chosen,
): Omit<Trouble, "remedy"> | null {
  const { refusals } = words();
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
