// Full duplex over version 2 of the realtime protocol: node examples/realtime.mjs QUESTION.wav [URL]
import { readFileSync } from "node:fs";

const [file, url = "ws://127.0.0.1:8006"] = process.argv.slice(2);

function fail(text) {
  console.error(text);
  process.exit(1);
}

if (!file) fail("usage: node examples/realtime.mjs QUESTION.wav [URL]");
const { WebSocket } = globalThis.WebSocket
  ? globalThis
  : await import("ws").catch(() => fail("needs Node.js 22 or newer, or the package ws: npm install ws"));
const wav = readFileSync(file); // 16-bit mono at 16 kHz, with the usual header of 44 bytes
const samples = new Int16Array(wav.buffer.slice(wav.byteOffset + 44, wav.byteOffset + wav.length));
const question = Float32Array.from(samples, (sample) => sample / 32768);
const socket = new WebSocket(`${url}/v1/realtime?mode=audio`);
const send = (event) => socket.send(JSON.stringify(event));
let position = 0;
let timer;
let spoken = 0; // seconds at 24 kHz

function sendSecond() {
  const second = new Float32Array(16000); // silence follows the question
  second.set(question.subarray(position, position + 16000));
  position += 16000;
  send({ type: "input.append", input: { audio: Buffer.from(second.buffer).toString("base64") } });
}

socket.onerror = () => fail(`cannot connect to ${url}, or the connection broke`);
socket.onmessage = ({ data }) => {
  const event = JSON.parse(data);
  if (event.type === "session.queue_done") {
    send({ type: "session.init", payload: { system_prompt: "You are a helpful assistant." } });
  }
  if (event.type === "session.created") timer = setInterval(sendSecond, 1000);
  if (event.type === "response.output.delta") {
    if (event.kind === "text") console.log("speaking:", event.text);
    if (event.kind === "audio") spoken += Buffer.from(event.audio, "base64").length / 4 / 24000;
    // The model listens again: its answer is complete.
    if (event.kind === "listen" && spoken > 0) send({ type: "session.close" });
  }
  if (event.type === "error") fail(event.error.message);
  if (event.type === "session.closed") {
    console.log(`${spoken.toFixed(1)} s of speech; closed: ${event.reason}`);
  }
};

socket.onclose = () => clearInterval(timer);
