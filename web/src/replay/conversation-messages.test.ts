import { expect, test } from "vitest";
import { type Packable, packed } from "./conversation-messages.ts";

async function hex(value: Packable): Promise<string> {
  const bytes = new Uint8Array(await packed(value).arrayBuffer());
  return [...bytes.slice(0, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

test("values have the bytes of the specification", async () => {
  expect(await hex({ a: [1, "é"] })).toBe("81 a1 61 92 01 a2 c3 a9");
  expect(await hex(Uint8Array.of(1, 2))).toBe("c4 02 01 02");
  expect(await hex(300)).toBe("cd 01 2c");
  expect(await hex(70_000)).toBe("ce 00 01 11 70");
  expect(await hex("x".repeat(32))).toMatch(/^d9 20 78/);
  expect(await hex("x".repeat(256))).toMatch(/^da 01 00 78/);
  expect(await hex(new Uint8Array(65_536))).toMatch(/^c6 00 01 00 00 00/);
  expect(await hex(Array.from({ length: 16 }, () => 7))).toMatch(/^dc 00 10 07/);
});
