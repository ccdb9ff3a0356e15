import { expect, it } from "vitest";
import { SpokenWords } from "./spoken-words.ts";

const characters = (words: SpokenWords, playedMs: number): number[] =>
  words.reached(playedMs).map((word) => word.characters);

it("reaches each word once, when its audio begins", () => {
  const words = new SpokenWords();
  words.push(
    1,
    "The capital",
    [
      [0, "The"],
      [300, " capital"],
    ],
    1000,
  );
  words.push(
    1,
    " is Rome.",
    [
      [100, " is"],
      [400, " Rome."],
    ],
    700,
  );
  expect(characters(words, 0)).toEqual([3]);
  expect(characters(words, 299)).toEqual([]);
  expect(characters(words, 300)).toEqual([8]);
  expect(characters(words, 1400)).toEqual([3, 6]);
  expect(words.waits).toBe(false);
});

it("continues after an interruption from the position that was reached", () => {
  const words = new SpokenWords();
  words.push(
    1,
    "One two",
    [
      [0, "One"],
      [800, " two"],
    ],
    1000,
  );
  expect(characters(words, 500)).toEqual([3]);
  words.drop(500);
  words.push(2, "Yes?", [[50, "Yes?"]], 400);
  expect(words.reached(549)).toEqual([]);
  expect(words.reached(550)).toMatchObject([{ line: 2, characters: 4 }]);
});

it("lights a whole unit at its beginning without times, or with those of another text", () => {
  const words = new SpokenWords();
  words.push(1, "One two", null, 1000);
  words.push(1, " three", [[500, "3"]], 1000);
  words.push(1, "", null, 1000);
  words.push(1, " four", null, 0);
  expect(characters(words, 0)).toEqual([7]);
  expect(characters(words, 1000)).toEqual([6]);
  expect(characters(words, 2999)).toEqual([]);
  expect(characters(words, 3000)).toEqual([5]);
});
