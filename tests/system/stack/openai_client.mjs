// OpenAI's package for JavaScript, unmodified: node openai_client.mjs WEB_FOLDER BASE_URL KEY QUESTION.wav
import { createReadStream } from "node:fs";
import { createRequire } from "node:module";

const [web, baseURL, apiKey, question] = process.argv.slice(2);
const { OpenAI, APIError } = createRequire(`${web}/package.json`)("openai");
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];
const tools = [{ type: "function", function: { name: "time", parameters: { type: "object" } } }];
const found = {};

async function refusal(call) {
  try {
    await call();
    return null;
  } catch (error) {
    if (!(error instanceof APIError)) throw error;
    return [error.constructor.name, error.status, error.code, error.param];
  }
}

found.models = (await client.models.list()).data.map(({ id }) => id);
const whole = await client.chat.completions.create({ model: "m", messages });
found.answer = whole.choices[0].message.content;
found.usage = whole.usage.completion_tokens;

const stream = await client.chat.completions.create({
  model: "m",
  messages,
  stream: true,
  stream_options: { include_usage: true },
});
found.streamed = "";
for await (const chunk of stream) {
  found.streamed += chunk.choices[0]?.delta.content ?? "";
  found.streamedUsage = chunk.usage?.total_tokens;
}

const spoken = await client.chat.completions.create({
  model: "m",
  messages,
  modalities: ["text", "audio"],
  audio: { voice: "alloy", format: "wav" },
});
found.spokenBytes = Buffer.from(spoken.choices[0].message.audio.data, "base64").length;
found.transcript = spoken.choices[0].message.audio.transcript;
const speech = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input: "One." });
found.speechType = speech.headers.get("content-type");
found.speechBytes = (await speech.arrayBuffer()).byteLength;
const file = () => createReadStream(question);
const transcribe = (fields) =>
  client.audio.transcriptions.create({ model: "whisper-1", file: file(), ...fields });
found.transcription = await refusal(transcribe);
if (!found.transcription) {
  found.transcript = (await transcribe()).text;
  const timed = { response_format: "verbose_json", timestamp_granularities: ["word"] };
  found.words = (await transcribe(timed)).words.length;
  found.vtt = await transcribe({ response_format: "vtt" });
}

const ask = (fields) => client.chat.completions.create({ model: "m", messages, ...fields });
found.refused = {
  tools: await refusal(() => ask({ tools, tool_choice: "required" })),
  n: await refusal(() => ask({ n: 2 })),
  key: await refusal(() => client.withOptions({ apiKey: "a-wrong-key-of-16" }).models.list()),
  path: await refusal(() => client.embeddings.create({ model: "m", input: "text" })),
};
console.log(JSON.stringify(found));
