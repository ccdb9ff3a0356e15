import { Store } from "../state/store.ts";

/**
 * Whether all elements of the first view are rendered. Until then each element waits for its turn,
 * so that no task of the browser gets long. Later updates do not wait.
 */
export const isBuilt = new Store(true);

/** After this time the browser may draw and handle input before the next element is rendered. */
const TURN_MS = 6;

const waiting: (() => void)[] = [];

/**
 * Runs what waits, in order and in short tasks, and also what this adds. Resolves when nothing
 * waits. Pages call it again before they render a large part for the first time.
 */
export async function buildPage(): Promise<void> {
  if (!isBuilt.value) return; // it already runs
  isBuilt.set(false);
  do {
    await nextTask();
    const end = performance.now() + TURN_MS;
    for (let work = waiting.shift(); work; work = waiting.shift()) {
      work();
      if (performance.now() >= end) break;
    }
    await nextTask(); // here elements that were rendered add their children
  } while (waiting.length > 0);
  isBuilt.set(true);
}

/** Resolves with the result of `work` when its turn has come. */
export function inTurn<Result>(work: () => Result): Promise<Result> {
  return new Promise((resolve, reject) => {
    waiting.push(() => {
      try {
        resolve(work());
      } catch (error) {
        reject(error);
      }
    });
  });
}

/** Resolves in a new task, before which the browser may draw and handle input. */
function nextTask(): Promise<void> {
  const { scheduler }: { scheduler?: Partial<Scheduler> } = globalThis;
  if (scheduler?.yield) return scheduler.yield();
  return new Promise((resolve) => setTimeout(resolve));
}
