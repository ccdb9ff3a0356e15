import { expect, test } from "vitest";
import { EventLog } from "./event-log.ts";

test("keeps the newest 200 messages, without audio and long texts", () => {
  const log = new EventLog();
  for (let i = 0; i < 250; i += 1) log.push({ sent: false, message: { type: "result", i } });
  const message = { type: "audio_chunk", audio: new Float32Array(16_000), image: "x".repeat(5000) };
  log.push({ sent: true, message });
  expect(log.value.length).toBe(200);
  const [newest, before] = log.value;
  expect(newest).toMatchObject({ sent: true, type: "audio_chunk" });
  expect(newest?.text).toContain('"audio":"[64000 bytes]"');
  expect(newest?.text.length).toBeLessThan(250);
  expect(before).toMatchObject({ type: "result", text: '{"i":249}' });
  log.clear();
  expect(log.value).toEqual([]);
});
