// Several questions on one realtime connection: node examples/realtime_chat.mjs "Who are you?" "And I?" [URL]
const questions = process.argv.slice(2);
const url = questions.at(-1)?.startsWith("ws") ? questions.pop() : "ws://127.0.0.1:8006";

function fail(text) {
  console.error(text);
  process.exit(1);
}

if (!questions.length) fail("usage: node examples/realtime_chat.mjs QUESTION ... [URL]");
const { WebSocket } = globalThis.WebSocket
  ? globalThis
  : await import("ws").catch(() => fail("needs Node.js 22 or newer, or the package ws: npm install ws"));
const socket = new WebSocket(`${url}/v1/realtime?mode=chat`);
const messages = [];
const send = (event) => socket.send(JSON.stringify(event));

function ask() {
  if (!questions.length) return send({ type: "session.close" });
  messages.push({ role: "user", content: questions.shift() });
  send({ type: "input.append", input: { messages, streaming: true } });
}

socket.onerror = () => fail(`cannot connect to ${url}, or the connection broke`);
socket.onmessage = ({ data }) => {
  const event = JSON.parse(data);
  if (event.type === "session.queue_done") send({ type: "session.init", payload: {} });
  if (event.type === "session.created") ask();
  if (event.type === "response.output.delta") process.stdout.write(event.text);
  if (event.type === "response.done") {
    messages.push({ role: "assistant", content: event.text });
    process.stdout.write("\n");
    ask();
  }
  if (event.type === "error") fail(event.error.message);
  if (event.type === "session.closed") console.log(`closed: ${event.reason}`);
};
