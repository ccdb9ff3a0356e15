import type { PresetPage } from "../api/catalog.ts";

interface Choice {
  readonly done: Promise<void>;
  readonly end: () => void;
}

const choices = new Map<PresetPage, Choice>();

/** Resolves when a preset of the page is chosen, or none can be. Sessions wait for it. */
export function presetChosen(page: PresetPage): Promise<void> {
  return choiceOf(page).done;
}

/** The presets of the page are loaded and one is chosen, or they cannot be loaded. */
export function endPresetChoice(page: PresetPage): void {
  choiceOf(page).end();
}

function choiceOf(page: PresetPage): Choice {
  const known = choices.get(page);
  if (known) return known;
  let end = (): void => undefined;
  const done = new Promise<void>((resolve) => {
    end = resolve;
  });
  const choice = { done, end };
  choices.set(page, choice);
  return choice;
}
