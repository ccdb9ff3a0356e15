import type { ReplayPlayer } from "../../components/replay-player.ts";

const STEP_MS = 2000;
const LONG_STEP_MS = 10_000;
const WRITES = "input:not([type=range]), textarea, select, [contenteditable], dialog *";
const PRESSED = "button, a, summary, audio, video";

/**
 * Space plays, left and right seek, up and down go to the previous and next turn. Returns true if
 * the key was used.
 */
export function handleKey(
  event: KeyboardEvent,
  replay: ReplayPlayer,
  step: (by: -1 | 1) => void,
): boolean {
  const target = event.target instanceof globalThis.Element ? event.target : null;
  if (event.ctrlKey || event.metaKey || event.altKey || target?.matches(WRITES)) return false;
  if (event.key === " ") return !target?.matches(PRESSED) && done(() => replay.toggle());
  const moves: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => replay.seek(replay.at.value - (event.shiftKey ? LONG_STEP_MS : STEP_MS)),
    ArrowRight: () => replay.seek(replay.at.value + (event.shiftKey ? LONG_STEP_MS : STEP_MS)),
    ArrowUp: () => step(-1),
    ArrowDown: () => step(1),
    Home: () => replay.seek(0),
    End: () => replay.seek(replay.lengthMs),
  };
  const move = moves[event.key];
  return move !== undefined && done(move);
}

function done(move: () => void): true {
  move();
  return true;
}
