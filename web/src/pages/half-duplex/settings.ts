import { voiceAudio } from "../../api/voices.ts";
import type { HalfDuplexPrepare, SystemItem } from "../../protocol/half-duplex-messages.ts";
import { INSTRUCTION_FIELDS, type Instructions } from "../../session/instructions.ts";
import { flag, range } from "../../settings/setting-fields.ts";
import { Settings } from "../../settings/settings.ts";

/** Durations are in ms unless the name says otherwise. */
export const halfDuplexSettings = new Settings("half-duplex", 1, {
  ...INSTRUCTION_FIELDS,
  threshold: range(0.8, 0.05, 0.95),
  minSpeechMs: range(128, 0, 1000),
  minSilenceMs: range(800, 200, 3000),
  padMs: range(30, 0, 500),
  maxTokens: range(256, 16, 1024),
  temperature: range(0.7, 0, 1.5),
  lengthPenalty: range(1.1, 0.5, 2),
  spoken: flag(true),
  timeoutS: range(180, 30, 600),
  record: flag(true),
});

export type HalfDuplexChoices = typeof halfDuplexSettings.value;

/** Returns the `prepare` fields. Rejects with ApiError if the selected voice cannot be loaded. */
export async function prepareHalfDuplex(
  chosen: HalfDuplexChoices,
  instructions: Instructions,
): Promise<HalfDuplexPrepare> {
  await instructions.complete();
  const speech = chosen.speech === null ? undefined : (await voiceAudio(chosen.speech)).base64;
  return {
    system_content: systemContent(instructions),
    ref_audio_base64: speech,
    record: chosen.record,
    config: {
      vad: {
        threshold: chosen.threshold,
        min_speech_duration_ms: chosen.minSpeechMs,
        min_silence_duration_ms: chosen.minSilenceMs,
        speech_pad_ms: chosen.padMs,
      },
      generation: {
        max_new_tokens: chosen.maxTokens,
        temperature: chosen.temperature,
        length_penalty: chosen.lengthPenalty,
      },
      tts: { enabled: chosen.spoken },
      session: { timeout_s: chosen.timeoutS },
    },
  };
}

function systemContent({ messageParts }: Instructions): SystemItem[] {
  return messageParts.flatMap((part): SystemItem[] => {
    if (part.type === "text") return [{ type: "text", text: part.text }];
    return part.type === "audio" ? [{ type: "audio", data: part.samples }] : [];
  });
}
