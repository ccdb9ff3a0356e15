// OpenAI's SDK for JavaScript, with TLS: a question, and another one that interrupts its answer.
//   openai_realtime.mjs BASE_URL KEY QUESTION.wav INTERRUPTION.wav    (24 kHz; writes reply.pcm)
import { readFileSync, writeFileSync } from "node:fs";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const [baseURL, apiKey, ...files] = process.argv.slice(2);
const questions = files.map((name) => readFileSync(name).subarray(44));
const realtime = new OpenAIRealtimeWS({ model: "any" }, new OpenAI({ baseURL, apiKey }));
const silence = Buffer.alloc(4800);
let toSay = questions[0];
let reply = [];
let answers = 0;

realtime.on("error", (error) => {
  console.log("error:", error.message);
  process.exit(1);
});
realtime.on("session.created", () => {
  const transcription = { model: "any" };
  realtime.send({ type: "session.update", session: { type: "realtime", audio: { input: { transcription } } } });
  setInterval(() => {
    const sound = Buffer.concat([toSay.subarray(0, 4800), silence]).subarray(0, 4800);
    toSay = toSay.subarray(4800);
    realtime.send({ type: "input_audio_buffer.append", audio: sound.toString("base64") });
  }, 100);
});
realtime.on("conversation.item.input_audio_transcription.completed", ({ transcript }) =>
  console.log("user:", transcript),
);
realtime.on("response.output_audio_transcript.done", ({ transcript }) => console.log("assistant:", transcript));
realtime.on("response.output_audio.delta", ({ delta }) => {
  if (answers === 0 && reply.length === 0) toSay = questions[1];
  reply.push(Buffer.from(delta, "base64"));
});
realtime.on("response.done", ({ response }) => {
  answers += 1;
  if (response.status === "cancelled") console.log("interrupted");
  if (answers === 2) {
    writeFileSync("reply.pcm", Buffer.concat(reply));
    realtime.close();
    process.exit(0);
  }
  reply = [];
});
