import { expect, it } from "vitest";
import { fromDb, noise } from "./test-signals.ts";
import { UserVoice } from "./user-voice.ts";

const LOUD = noise(320, fromDb(-20));
const QUIET = noise(320, fromDb(-80));

/** The changes during blocks of 20 ms. */
function changes(voice: UserVoice, ...parts: [block: typeof LOUD, blocks: number][]): boolean[] {
  const found: boolean[] = [];
  for (const [block, blocks] of parts) {
    for (let n = 0; n < blocks; n++) {
      const change = voice.push(block, 20);
      if (change !== undefined) found.push(change);
    }
  }
  return found;
}

it("goes by loudness without a network, while it is loaded, and if that fails", async () => {
  const failed = Promise.reject(new Error("offline"));
  for (const loading of [undefined, new Promise<never>(() => undefined), failed]) {
    const voice = new UserVoice(loading);
    await Promise.resolve();
    expect(changes(voice, [LOUD, 10], [QUIET, 50])).toEqual([true, false]);
  }
});

it("goes by the network once it is loaded: noise does not count, speech does", async () => {
  let probability = 0.1;
  const voice = new UserVoice(Promise.resolve({ step: () => probability }));
  await Promise.resolve();
  expect(changes(voice, [QUIET, 5], [LOUD, 50], [QUIET, 50])).toEqual([]);
  probability = 0.9;
  expect(changes(voice, [LOUD, 10])).toEqual([true]);
  expect(voice.quietMs).toBe(0);
  probability = 0.1;
  expect(changes(voice, [LOUD, 25])).toEqual([false]);
});

it("changes over in a pause, so that speech does not start twice", async () => {
  let loaded: (network: { step(): number }) => void = () => undefined;
  const voice = new UserVoice(
    new Promise((resolve) => {
      loaded = resolve;
    }),
  );
  expect(changes(voice, [LOUD, 10])).toEqual([true]);
  loaded({ step: () => 0.9 });
  await Promise.resolve();
  expect(changes(voice, [LOUD, 20], [QUIET, 50], [QUIET, 50])).toEqual([false]);
});
