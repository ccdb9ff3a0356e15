import { expect, it } from "vitest";
import { newSessionId, socketUrl } from "./clients.ts";

it("uses the security of the page", () => {
  expect(socketUrl("/ws/chat", "https://a.example/voice/?x=1").href).toBe(
    "wss://a.example/voice/ws/chat",
  );
  expect(socketUrl("/ws/chat", "http://a.example:8006/").href).toBe("ws://a.example:8006/ws/chat");
  expect(socketUrl("/ws/chat", "wss://a.example").href).toBe("wss://a.example/ws/chat");
});

it("takes the address of a folder without its last slash", () => {
  for (const home of ["https://a.example/voice", "https://a.example/voice/omni.html"]) {
    expect(socketUrl("/ws/chat", home).href).toBe("wss://a.example/voice/ws/chat");
  }
  for (const end of ["", "/", "/omni.html", "/index.htm"]) {
    const home = `https://a.example/antiphon-2.0${end}`;
    expect(socketUrl("/ws/chat", home).href).toBe("wss://a.example/antiphon-2.0/ws/chat");
  }
});

it("creates valid unique ids", () => {
  const ids = new Set(Array.from({ length: 1000 }, () => newSessionId("adx")));
  expect(ids.size).toBe(1000);
  for (const id of ids) expect(id).toMatch(/^adx_[A-Za-z0-9_-]{1,60}$/);
});
