export type InputProblem =
  /** The microphone has delivered nothing audible. */
  | "silent"
  /** The microphone picks up the model. */
  | "echo";

const PER_S = 10;
const SILENT = 10 * PER_S;
const WINDOW = 20 * PER_S;
const LEAST_MODEL = 1.5 * PER_S;
const MOST_LAG = 4;
const FLOOR_DB = -60;
const AUDIBLE_DB = -45;
const ALIKE = 0.75;

/**
 * Checks the microphone during a call by the peaks of both sides, dBFS, ten times per second. With an
 * echo, the level of the microphone follows the level of the model. Two people who take turns
 * have opposite levels. Pure.
 */
export class InputCheck {
  readonly #user: number[] = [];
  readonly #model: number[] = [];
  #heard = false;
  #quiet = 0;
  #count = 0;
  #echo = false;

  push(userDb: number, modelDb: number): InputProblem | null {
    if (userDb > FLOOR_DB) this.#heard = true;
    if (modelDb < AUDIBLE_DB) this.#quiet += 1; // the user may listen to the model
    keep(this.#user, Math.max(FLOOR_DB, userDb));
    keep(this.#model, Math.max(FLOOR_DB, modelDb));
    this.#count += 1;
    if (this.#count % PER_S === 0) this.#echo = hasEcho(this.#user, this.#model);
    if (this.#echo) return "echo";
    return !this.#heard && this.#quiet >= SILENT ? "silent" : null;
  }
}

function keep(levels: number[], level: number): void {
  levels.push(level);
  if (levels.length > WINDOW) levels.shift();
}

function hasEcho(user: readonly number[], model: readonly number[]): boolean {
  if (model.filter((db) => db > AUDIBLE_DB).length < LEAST_MODEL) return false;
  for (let lag = 0; lag <= MOST_LAG; lag += 1) {
    if (correlation(user.slice(lag), model.slice(0, model.length - lag)) > ALIKE) return true;
  }
  return false;
}

/** -1 to 1. Zero if one of them is constant. */
function correlation(one: readonly number[], other: readonly number[]): number {
  const [meanOne, meanOther] = [mean(one), mean(other)];
  let [product, squareOne, squareOther] = [0, 0, 0];
  for (const [index, value] of one.entries()) {
    const [a, b] = [value - meanOne, (other[index] ?? 0) - meanOther];
    product += a * b;
    squareOne += a * a;
    squareOther += b * b;
  }
  return squareOne * squareOther === 0 ? 0 : product / Math.sqrt(squareOne * squareOther);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
