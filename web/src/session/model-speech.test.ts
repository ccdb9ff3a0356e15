import { describe, expect, it } from "vitest";
import type { AudioEngine } from "../audio/audio-engine.ts";
import type { PlayerEvents } from "../audio/player.ts";
import type { Result } from "../protocol/server-messages.ts";
import { TypedEvents } from "../state/store.ts";
import { type GateDecision, ModelSpeech, ResponseTimes, SpeechGate } from "./model-speech.ts";

const LISTEN = { is_listen: true, end_of_turn: false, interrupted: false };
const CUT = { ...LISTEN, interrupted: true };
const SPEAK = { is_listen: false, end_of_turn: false, interrupted: false };
const LAST = { ...SPEAK, end_of_turn: true };

function verdicts(...units: (typeof LISTEN | "interrupt")[]): (GateDecision | undefined)[] {
  const gate = new SpeechGate();
  return units.map((unit) => (unit === "interrupt" ? void gate.interrupt() : gate.unit(unit)));
}

it("plays a finished turn completely", () => {
  expect(verdicts(LISTEN, SPEAK, LAST, LISTEN)).toEqual(["ignore", "play", "play", "ignore"]);
});

it("flushes a turn that was interrupted, also one that is complete and still plays", () => {
  expect(verdicts(SPEAK, SPEAK, CUT, LISTEN)).toEqual(["play", "play", "flush", "ignore"]);
  expect(verdicts(SPEAK, LAST, CUT, LISTEN)).toEqual(["play", "play", "flush", "ignore"]);
});

it("ignores the rest of an interrupted turn and plays the next one", () => {
  expect(verdicts(SPEAK, "interrupt", SPEAK, CUT, SPEAK)).toEqual([
    "play",
    undefined,
    "ignore",
    "ignore",
    "play",
  ]);
});

it("ends an interrupted turn at its end of turn", () => {
  expect(verdicts(SPEAK, "interrupt", LAST, SPEAK)).toEqual(["play", undefined, "ignore", "play"]);
});

it("is in a turn until its end or an interruption", () => {
  const gate = new SpeechGate();
  const inTurn = [LISTEN, SPEAK, SPEAK, LAST, SPEAK, "interrupt" as const, SPEAK, LISTEN].map(
    (unit) => {
      if (unit === "interrupt") gate.interrupt();
      else gate.unit(unit);
      return gate.inTurn;
    },
  );
  expect(inTurn).toEqual([false, true, true, false, true, false, false, false]);
});

it("returns the last time, the median and the longest", () => {
  const times = new ResponseTimes();
  expect([times.last, times.median, times.longest]).toEqual([null, null, null]);
  for (const ms of [900, 300, 500]) times.add(1000, 1000 + ms);
  expect([times.last, times.median, times.longest]).toEqual([500, 500, 900]);
  times.add(1000, 1400);
  expect(times.median).toBe(450);
});

it("counts only audio that answers speech", () => {
  const times = new ResponseTimes();
  times.add(-Infinity, 5000);
  times.add(5000, 4000);
  times.add(0, 60_000);
  expect(times.last).toBeNull();
});

class FakePlayerEvents extends TypedEvents<PlayerEvents> {
  /** Lets an event happen. */
  happen<Name extends keyof PlayerEvents>(name: Name, event: PlayerEvents[Name]): void {
    this.emit(name, event);
  }
}

/** The audio of a session in which the test is the user; `log` has what reaches the player. */
class UserAudio extends TypedEvents<{ userBlock: Float32Array }> {
  readonly log: string[] = [];
  userSpeaks = false;
  userLastSpokeAt = 0;
  userVoiceMs = 0;
  readonly player = Object.assign(new FakePlayerEvents(), {
    stats: { playing: false, paused: false },
    pause: () => 20,
    resume: () => undefined,
    push: ([first]: Float32Array) => this.log.push(`unit ${first}`),
    endTurn: () => this.log.push("end"),
    flush: () => this.log.push("flush"),
  });

  /** Captures audio for this time. */
  capture(seconds: number, { speaks }: { speaks: boolean }): void {
    this.userSpeaks = speaks;
    for (let n = 0; n < seconds * 50; n++) this.emit("userBlock", new Float32Array(320));
  }
}

describe("a turn that begins while the user speaks", () => {
  function session({ waits = true } = {}) {
    const audio = new UserAudio();
    const shown: string[][] = [];
    const model = new ModelSpeech(audio as unknown as AudioEngine, {
      waits,
      onChange: () => undefined,
      onLines: () => shown.push(model.lines.map(({ text }) => text)),
    });
    const unit = (number: number, end = false) =>
      model.unit({
        is_listen: false,
        end_of_turn: end,
        text: ` ${number}`,
        user_text: "",
        audio_data: new Float32Array([number]),
      } as Result);
    const listens = () => model.unit({ ...CUT, text: "", user_text: "" } as Result);
    return { audio, model, unit, listens, shown };
  }

  it("makes no sound until the user is silent; then all of it is played, once", () => {
    const { audio, unit, shown } = session();
    audio.capture(1, { speaks: true });
    unit(1);
    audio.capture(1, { speaks: true });
    unit(2, true);
    audio.capture(1, { speaks: true });
    expect([audio.log, shown]).toEqual([[], []]);
    audio.capture(0.02, { speaks: false });
    expect(audio.log).toEqual(["unit 1", "unit 2", "end"]);
    expect(shown).toEqual([[" 1 2"]]);
    unit(3);
    audio.capture(1, { speaks: false });
    expect(audio.log).toEqual(["unit 1", "unit 2", "end", "unit 3"]);
  });

  it("waits for four seconds at most", () => {
    const { audio, unit } = session();
    audio.capture(10, { speaks: true });
    unit(1);
    audio.capture(3.9, { speaks: true });
    expect(audio.log).toEqual([]);
    audio.capture(0.2, { speaks: true });
    unit(2);
    expect(audio.log).toEqual(["unit 1", "unit 2"]);
  });

  it("is dropped if the model listens again, or is interrupted", () => {
    const { audio, model, unit, listens } = session();
    audio.capture(1, { speaks: true });
    unit(1);
    listens();
    expect(model.interruptions).toEqual([]); // nothing was played
    unit(2);
    model.silence();
    audio.capture(1, { speaks: false });
    expect(audio.log).toEqual(["flush", "flush"]);
    expect(model.lines).toEqual([]);
  });

  it("does not wait in a turn that already plays, nor if the user's voice does not count", () => {
    for (const { audio, unit } of [session(), session({ waits: false })]) {
      unit(1);
      audio.capture(1, { speaks: true });
      unit(2);
      expect(audio.log).toEqual(["unit 1", "unit 2"]);
    }
    const { audio, unit } = session({ waits: false });
    audio.capture(1, { speaks: true });
    unit(1);
    expect(audio.log).toEqual(["unit 1"]);
  });
});

it("says that the model speaks from its first sound to the last, also after a late unit or a pause", () => {
  const audio = new UserAudio();
  const said: boolean[] = [];
  new ModelSpeech(audio as unknown as AudioEngine, {
    waits: true,
    onChange: (speaks) => said.push(speaks),
    onLines: () => undefined,
  });
  audio.player.happen("start", { atMs: 0, delayMs: 200 });
  audio.player.happen("idle", { playedMs: 1000 });
  audio.player.happen("gap", { gapMs: 300 });
  audio.player.happen("pause", undefined);
  audio.player.happen("resume", undefined);
  audio.player.happen("idle", { playedMs: 2000 });
  expect(said).toEqual([true, false, true, false, true, false]);
});

describe("interruptions", () => {
  function session() {
    const audio = new UserAudio();
    const model = new ModelSpeech(audio as unknown as AudioEngine, {
      waits: true,
      onChange: () => undefined,
      onLines: () => undefined,
    });
    const unit = (is_listen: boolean, end_of_turn = false) =>
      model.unit({
        is_listen,
        end_of_turn,
        interrupted: is_listen,
        text: " word",
        user_text: "",
        audio_data: new Float32Array([1]),
      } as Result);
    const step = (playing: boolean, voiceMs: number) => {
      audio.player.stats.playing = playing;
      audio.userVoiceMs = voiceMs;
    };
    return { model, unit, step };
  }

  it("take from the user's first sound to the silence, and do not count before the server knows", () => {
    const { model, unit, step } = session();
    unit(false);
    step(true, 96);
    model.pause();
    step(true, 300);
    expect(model.interruptions).toEqual([]);
    model.interrupt();
    expect(model.interruptions).toEqual([116]);
    expect(model.lines).toMatchObject([{ text: " word", cut: true }]);
  });

  it("do not count if the voice was no speech, if the model is silent, or at the end of the call", () => {
    const { model, unit, step } = session();
    model.interrupt();
    unit(false);
    step(true, 96);
    model.pause();
    model.resume();
    model.silence();
    expect(model.interruptions).toEqual([]);
  });

  it("have no time if a button was pressed, or if the model was between two sounds", () => {
    const { model, unit, step } = session();
    unit(false);
    step(true, 0);
    model.interrupt();
    unit(false, true);
    step(false, 0);
    unit(false);
    step(false, 96);
    model.pause();
    model.interrupt();
    expect(model.interruptions).toEqual([null, null]);
  });

  it("count once if the server stops the model, with the time of the page's pause if there is one", () => {
    const { model, unit, step } = session();
    unit(false);
    step(true, 700);
    unit(true);
    step(false, 0);
    unit(false);
    step(true, 96);
    model.pause();
    step(false, 600);
    unit(true);
    expect(model.interruptions).toEqual([700, 116]);
  });
});

describe("a pause for a voice", () => {
  function paused() {
    const audio = new UserAudio();
    const model = new ModelSpeech(audio as unknown as AudioEngine, {
      waits: true,
      onChange: () => undefined,
      onLines: () => undefined,
    });
    audio.player.resume = () => {
      audio.player.stats.paused = false;
      audio.log.push("resume");
      return undefined;
    };
    model.pause();
    audio.player.stats.paused = true;
    return audio;
  }

  it("ends after 2.5 s, if the server does not stop the model by then", () => {
    const audio = paused();
    for (let n = 0; n < 12; n++) audio.capture(0.2, { speaks: true });
    expect(audio.log).toEqual([]);
    audio.capture(0.2, { speaks: true });
    expect(audio.log).toEqual(["resume"]);
  });
});
