interface Biquad {
  b: readonly [number, number, number];
  a: readonly [number, number]; // a0 is 1
}

/**
 * K-weighting of ITU-R BS.1770-4 at any sample rate: a high shelf, then a high pass. The standard
 * gives coefficients for 48 kHz only. These are derived from its analogue prototypes with the
 * bilinear transform and match them at 48 kHz.
 */
export class KWeighting {
  readonly #stages: Section[];

  constructor(sampleRate: number) {
    this.#stages = [highShelf(sampleRate), highPass(sampleRate)].map(
      (biquad) => new Section(biquad),
    );
  }

  next(sample: number): number {
    let value = sample;
    for (const stage of this.#stages) value = stage.next(value);
    return value;
  }
}

/** Transposed direct form II. */
class Section {
  readonly #biquad: Biquad;
  #z1 = 0;
  #z2 = 0;

  constructor(biquad: Biquad) {
    this.#biquad = biquad;
  }

  next(x: number): number {
    const { a, b } = this.#biquad;
    const y = b[0] * x + this.#z1;
    this.#z1 = b[1] * x - a[0] * y + this.#z2;
    this.#z2 = b[2] * x - a[1] * y;
    return y;
  }
}

export function highShelf(sampleRate: number): Biquad {
  const k = Math.tan((Math.PI * 1681.974450955533) / sampleRate);
  const q = 0.7071752369554196;
  const high = 10 ** (3.999843853973347 / 20);
  const band = high ** 0.4996667741545416;
  const a0 = 1 + k / q + k * k;
  return {
    b: [
      (high + (band * k) / q + k * k) / a0,
      (2 * (k * k - high)) / a0,
      (high - (band * k) / q + k * k) / a0,
    ],
    a: [(2 * (k * k - 1)) / a0, (1 - k / q + k * k) / a0],
  };
}

export function highPass(sampleRate: number): Biquad {
  const k = Math.tan((Math.PI * 38.13547087602444) / sampleRate);
  const q = 0.5003270373238773;
  const a0 = 1 + k / q + k * k;
  return { b: [1, -2, 1], a: [(2 * (k * k - 1)) / a0, (1 - k / q + k * k) / a0] };
}
