// @vitest-environment happy-dom

import { afterEach, expect, test, vi } from "vitest";
import { type Part, plainText, textPart } from "../../media/parts.ts";
import { isBuilt } from "../../ui/page-build.ts";
import { Composer, QuestionElement } from "./composer.ts";

vi.mock("../../components/audio-recorder.ts", () => ({}));

isBuilt.set(true);
afterEach(() => document.body.replaceChildren());

async function shown<T extends Composer | QuestionElement>(element: T): Promise<T> {
  document.body.append(element);
  await element.updateComplete;
  return element;
}

function sentBy(element: HTMLElement, name: string): (readonly Part[])[] {
  const sent: (readonly Part[])[] = [];
  element.addEventListener(name, (event) => sent.push((event as CustomEvent<Part[]>).detail));
  return sent;
}

const submit = (element: HTMLElement) =>
  element.querySelector("form")?.dispatchEvent(new Event("submit", { cancelable: true }));

test.each([
  ["recorded", ["audio", "text"]],
  ["discard", ["text"]],
])("a waiting message is sent when its recording is made: %s", async (end, types) => {
  const composer = new Composer();
  composer.draft = [textPart("What is this?")];
  composer.busy = true;
  await shown(composer);
  const sent = sentBy(composer, "send");
  submit(composer);
  await composer.updateComplete;
  composer.querySelector<HTMLElement>("[aria-label='Record audio']")?.click();
  composer.busy = false;
  await composer.updateComplete;
  expect(sent).toEqual([]);
  composer
    .querySelector("an-audio-recorder")
    ?.dispatchEvent(new CustomEvent(end, { detail: Float32Array.of(0.5) }));
  await composer.updateComplete;
  expect(sent.map((parts) => parts.map(({ type }) => type))).toEqual([types]);
});

test("the box of an edited message has another name than the box of a new one", async () => {
  const question = new QuestionElement();
  question.question = {
    id: 1,
    role: "user",
    parts: [textPart("Why?")],
  } as QuestionElement["question"];
  const [composer] = [await shown(new Composer()), await shown(question)];
  question.edit();
  await question.updateComplete;
  await question.querySelector<Composer>("an-composer")?.updateComplete;
  const names = [composer, question].map((one) =>
    one.querySelector("textarea")?.getAttribute("aria-label"),
  );
  expect(names).toEqual(["Your message", "Edit message"]);
});

test("an edited question that was not sent is edited again", async () => {
  const element = new QuestionElement();
  element.question = { role: "user", id: 1, parts: [textPart("One?")] };
  await shown(element);
  const text = () => element.querySelector("textarea")?.value;
  element.edit();
  await vi.waitFor(() => expect(text()).toBe("One?"), 5000);
  const sent = sentBy(element, "edit");
  element.edit([textPart("Two?")]);
  await vi.waitFor(() => expect(text()).toBe("Two?"), 5000);
  submit(element);
  await element.updateComplete;
  expect(sent.map((parts) => plainText(parts))).toEqual(["Two?"]);
  expect(text()).toBeUndefined();
});
