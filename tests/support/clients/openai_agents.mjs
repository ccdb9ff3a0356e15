// OpenAI's Agents SDK for JavaScript: a question, and another one that interrupts its answer.
//   openai_agents.mjs URL KEY QUESTION.wav INTERRUPTION.wav    (24 kHz; writes reply.pcm)
import { readFileSync, writeFileSync } from "node:fs";
import { RealtimeAgent, RealtimeSession } from "@openai/agents-realtime";

const [url, apiKey, ...files] = process.argv.slice(2);
const questions = files.map((name) => readFileSync(name).subarray(44));
const agent = new RealtimeAgent({ name: "Assistant", instructions: "Be brief." });
const session = new RealtimeSession(agent, { transport: "websocket", model: "any" });
let toSay = questions[0];
let reply = [];
let answers = 0;

session.on("audio", ({ data }) => {
  if (answers === 0 && reply.length === 0) toSay = questions[1];
  reply.push(Buffer.from(data));
});
session.on("audio_interrupted", () => console.log("interrupted"));
session.on("error", ({ error }) => {
  console.log("error:", error?.error?.message ?? error?.message ?? JSON.stringify(error));
  process.exit(1);
});
session.on("agent_end", () => {
  answers += 1;
  if (answers === 2) {
    writeFileSync("reply.pcm", Buffer.concat(reply));
    setInterval(showWhenTranscribed, 100);
  }
  reply = [];
});

function showWhenTranscribed() {
  const said = session.history.flatMap(({ role, content }) =>
    (content ?? []).map((part) => [role, part.transcript]),
  );
  if (said.some(([role, transcript]) => role === "user" && !transcript)) return;
  for (const [role, transcript] of said) console.log(`${role}:`, transcript);
  process.exit(0);
}

await session.connect({ apiKey, url });
const silence = Buffer.alloc(4800);
setInterval(() => {
  const sound = Buffer.concat([toSay.subarray(0, 4800), silence]).subarray(0, 4800);
  toSay = toSay.subarray(4800);
  session.sendAudio(new Uint8Array(sound).buffer);
}, 100);
