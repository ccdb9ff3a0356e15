import { concatSamples, type Samples } from "./pcm.ts";

/** A sine with phase 0 and peak `amplitude`. */
export function sine(hz: number, rate: number, seconds: number, amplitude = 1): Samples {
  const samples = new Float32Array(Math.round(rate * seconds));
  for (let n = 0; n < samples.length; n++) {
    samples[n] = amplitude * Math.sin((2 * Math.PI * hz * n) / rate);
  }
  return samples;
}

export function fromDb(db: number): number {
  return 10 ** (db / 20);
}

/** Repeatable white noise with this RMS level. */
export function noise(length: number, rms: number): Samples {
  const samples = new Float32Array(length);
  let seed = 1;
  for (let n = 0; n < length; n++) {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    samples[n] = rms * Math.sqrt(3) * (seed / 1_073_741_824 - 1);
  }
  return samples;
}

const RATE = 16_000;

/** Sounds that are not speech, at 16 kHz. They are made from noise and sines, not recorded. */
export const ROOM_SOUNDS: Record<string, () => Samples> = {
  cough,
  "a cough with a voice": voicedCough,
  sneeze,
  typing,
  "a knock on the door": knock,
  breathing,
  applause,
  music,
  "a fan": () => shaped(noise(4 * RATE, 0.05), () => 1, [[150, 0.9]]),
};

/** Three phases: an explosion, noise, and a short rough voice. Twice. */
function cough(): Samples {
  const burst = (t: number): number =>
    Math.exp(-t / 0.03) + 0.5 * bump(t, 0.05, 0.2) + 0.25 * bump(t, 0.2, 0.32);
  const once = shaped(noise(0.5 * RATE, 0.5), burst, [
    [600, 0.95],
    [1700, 0.93],
    [3200, 0.9],
  ]);
  return concatSamples([once, new Float32Array(0.2 * RATE), once]);
}

/** An explosion, breath, and a voice that falls from 180 to 140 Hz. */
function voicedCough(): Samples {
  const length = 0.7 * RATE;
  const pulses = new Float32Array(length);
  let phase = 0;
  for (let n = 0; n < length; n++) {
    const step = (180 - (60 * n) / RATE) / RATE;
    phase += step;
    pulses[n] = (phase % 1 < step ? 8 : 0) - 8 * step; // without a constant part
  }
  const breath = noise(length, 1 / Math.sqrt(3));
  const source = pulses.map((pulse, n) => {
    const t = n / RATE;
    const rise = Math.sin((Math.PI / 2) * Math.min(1, t / 0.125));
    return (
      (1.5 * Math.exp(-t / 0.02) + 0.15 * rise) * (breath[n] as number) +
      0.2 * pulse * bump(t, 0.08, 0.5)
    );
  });
  return shaped(source, () => 1.5, [
    [500, 0.97],
    [1700, 0.96],
    [2500, 0.94],
  ]);
}

function sneeze(): Samples {
  const envelope = (t: number): number =>
    0.15 * bump(t, 0, 0.4) + bump(t, 0.4, 0.46) + Math.max(0, bump(t, 0.42, 0.8));
  return shaped(noise(0.9 * RATE, 0.4), envelope, [
    [2500, 0.85],
    [4000, 0.8],
  ]);
}

/** 30 keys, eight per second, each pressed and released. */
function typing(): Samples {
  const key = (loud: number): Samples =>
    shaped(noise(0.06 * RATE, loud), (t) => Math.exp(-t / 0.006) + 0.1 * Math.exp(-t / 0.05), [
      [2200, 0.93],
      [4100, 0.9],
    ]);
  const keys = Array.from({ length: 30 }, (_, n) => [
    key(0.3 + 0.1 * (n % 3)),
    key(0.12),
    new Float32Array(n % 4 === 0 ? 800 : 80),
  ]);
  return concatSamples(keys.flat());
}

function knock(): Samples {
  const echo = (t: number): number => Math.exp(-t / 0.012) + 0.1 * Math.exp(-t / 0.08);
  const once = shaped(noise(0.18 * RATE, 0.6), echo, [
    [170, 0.99],
    [420, 0.98],
  ]);
  return concatSamples([once, once, once]);
}

/** In and out, as close to the microphone. */
function breathing(): Samples {
  const envelope = (t: number): number => 0.6 * bump(t, 0, 1.2) + bump(t, 1.5, 3);
  return shaped(noise(3.2 * RATE, 0.1), envelope, [
    [900, 0.9],
    [2300, 0.85],
  ]);
}

function applause(): Samples {
  const claps = noise(2 * RATE, 0.3).map(
    (value, n) => value * (n % 1531 < 120 || n % 1117 < 100 ? 1 : 0.05),
  );
  return shaped(claps, () => 1, [[1400, 0.85]]);
}

/** Plucked chords with eight harmonics per note. */
function music(): Samples {
  const notes = [220, 277.2, 329.6, 440];
  return new Float32Array(4 * RATE).map((_, n) => {
    const t = n / RATE;
    const decay = Math.exp(-(t % 0.5) / 0.3);
    const tone = (hz: number, k: number): number => Math.sin(2 * Math.PI * hz * k * t) / k;
    const harmonics = [1, 2, 3, 4, 5, 6, 7, 8];
    return (
      0.04 *
      decay *
      notes.reduce((sum, hz) => sum + harmonics.reduce((s, k) => s + tone(hz, k), 0), 0)
    );
  });
}

/** 0 outside of `from` to `to` (seconds), 1 in the middle. */
function bump(t: number, from: number, to: number): number {
  return t <= from || t >= to ? 0 : Math.sin((Math.PI * (t - from)) / (to - from));
}

/** `signal` times an envelope over seconds, through resonances: frequency, and radius of the pole. */
function shaped(
  signal: Samples,
  envelope: (t: number) => number,
  resonances: [hz: number, radius: number][],
): Samples {
  const loud = signal.map((value, n) => value * envelope(n / RATE));
  const parts = resonances.map(([hz, radius]) => resonance(loud, hz, radius));
  return loud.map(
    (_, n) => parts.reduce((sum, part) => sum + (part[n] as number), 0) / parts.length,
  );
}

function resonance(signal: Samples, hz: number, radius: number): Samples {
  const turn = 2 * radius * Math.cos((2 * Math.PI * hz) / RATE);
  let last = 0;
  let before = 0;
  return signal.map((value) => {
    const next = (1 - radius) * 2 * value + turn * last - radius * radius * before;
    before = last;
    last = next;
    return next;
  });
}
