import { voiceList } from "../../components/voice-list.ts";
import type { ChatRequest } from "../../protocol/chat-messages.ts";
import type { ChatEntry } from "../../session/chat-request.ts";
import { INSTRUCTION_FIELDS, type Instructions } from "../../session/instructions.ts";
import { choice, flag, range, Settings } from "../../settings/settings.ts";

export const chatSettings = new Settings("turnbased", 1, {
  ...INSTRUCTION_FIELDS,
  spoken: flag(true),
  maxTokens: range(512, 16, 2048),
  temperature: range(0.7, 0, 1.5),
  lengthPenalty: range(1.1, 0.5, 2),
  thinking: flag(false),
  detail: choice("auto", ["auto", "low", "medium", "high"]),
  videoSound: flag(true),
  record: flag(true),
});

export type ChatChoices = typeof chatSettings.value;
export type Detail = ChatChoices["detail"];

const SLICES: Record<Detail, number | undefined> = { auto: undefined, low: 1, medium: 4, high: 9 };

/** Returns the request fields besides the messages. */
export function chatRequestFields(
  chosen: ChatChoices,
  instructions: Instructions,
  said: readonly ChatEntry[],
): Omit<ChatRequest, "messages"> {
  const video = said.some((one) => one.role === "user" && one.parts.some(isVideo));
  const slices = SLICES[chosen.detail];
  return {
    streaming: true,
    generation: {
      max_new_tokens: chosen.maxTokens,
      temperature: chosen.temperature,
      length_penalty: chosen.lengthPenalty,
    },
    image: slices === undefined ? undefined : { max_slice_nums: slices },
    omni_mode: video && chosen.videoSound,
    enable_thinking: chosen.thinking,
    tts: speechWith(chosen, instructions, video),
    record: chosen.record,
  };
}

/** The output voice is the one of the instructions unless the user selected another. */
function speechWith(
  { spoken, speech }: ChatChoices,
  { messageParts }: Instructions,
  video: boolean,
): ChatRequest["tts"] {
  if (!spoken) return { enabled: false };
  const path = voiceList.value?.find(({ id }) => id === speech)?.path;
  const own = messageParts.find((part) => part.type === "audio")?.samples;
  const voice = path === undefined ? { ref_audio_data: own } : { ref_audio_path: path };
  return { enabled: true, mode: video ? "omni" : "audio_assistant", ...voice };
}

function isVideo({ type }: { readonly type: string }): boolean {
  return type === "video";
}
