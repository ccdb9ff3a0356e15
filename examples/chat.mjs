// Stream an answer to a written question: node examples/chat.mjs "Who are you?" [URL]
const [question, url = "ws://127.0.0.1:8006"] = process.argv.slice(2);
if (!question) throw new Error("usage: node examples/chat.mjs QUESTION [URL]");
const socket = new WebSocket(`${url}/ws/chat`);

socket.onopen = () =>
  socket.send(
    JSON.stringify({ messages: [{ role: "user", content: question }], streaming: true }),
  );

socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  if (message.type === "chunk") process.stdout.write(message.text_delta ?? "");
  if (message.type === "error") throw new Error(message.error);
  if (message.type === "done") {
    console.log("\nrecorded as", message.recording_session_id);
    socket.close();
  }
};
