// Stream an answer to a written question: node examples/chat.mjs "Who are you?" [URL]
const [question, url = "ws://127.0.0.1:8006"] = process.argv.slice(2);

function fail(text) {
  console.error(text);
  process.exit(1);
}

if (!question) fail("usage: node examples/chat.mjs QUESTION [URL]");
const { WebSocket } = globalThis.WebSocket
  ? globalThis
  : await import("ws").catch(() => fail("needs Node.js 22 or newer, or the package ws: npm install ws"));
const socket = new WebSocket(`${url}/ws/chat`);

socket.onerror = () => fail(`cannot connect to ${url}, or the connection broke`);
socket.onopen = () =>
  socket.send(
    JSON.stringify({ messages: [{ role: "user", content: question }], streaming: true }),
  );

socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  if (message.type === "chunk") process.stdout.write(message.text_delta ?? "");
  if (message.type === "error") fail(message.error);
  if (message.type === "done") {
    console.log("\nrecorded as", message.recording_session_id);
    socket.close();
  }
};
