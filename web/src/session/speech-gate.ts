/** What to do with a unit's sound. */
export type GateDecision =
  | "play"
  /** The model fell silent in mid-speech: what waits must not be heard. */
  | "flush"
  /** Nothing, or something that the user has interrupted before the server knew. */
  | "ignore";

/** Whether what the model says is still wanted. Pure. */
export class SpeechGate {
  #inTurn = false;
  #interrupted = false;

  /** The user wants silence now: nothing more of this turn is played. */
  interrupt(): void {
    this.#interrupted = true;
  }

  unit(unit: { is_listen: boolean; end_of_turn: boolean }): GateDecision {
    const wasInTurn = this.#inTurn;
    const wasInterrupted = this.#interrupted;
    this.#inTurn = !unit.is_listen && !unit.end_of_turn;
    if (!this.#inTurn) this.#interrupted = false;
    if (unit.is_listen) return wasInTurn && !wasInterrupted ? "flush" : "ignore";
    return wasInterrupted ? "ignore" : "play";
  }
}
