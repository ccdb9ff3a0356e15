/** How loud a stream is right now. Made in a click. */
export class LevelMeter {
  readonly #context = new AudioContext();
  readonly #analyser: AnalyserNode;
  readonly #samples: Float32Array<ArrayBuffer>;

  constructor(stream: MediaStream) {
    this.#analyser = new AnalyserNode(this.#context, { fftSize: 2048 });
    this.#samples = new Float32Array(this.#analyser.fftSize);
    this.#context.createMediaStreamSource(stream).connect(this.#analyser);
  }

  /** The highest sample of the last 40 ms, dBFS. */
  get peakDb(): number {
    this.#analyser.getFloatTimeDomainData(this.#samples);
    const peak = this.#samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    return 20 * Math.log10(peak);
  }

  close(): void {
    void this.#context.close();
  }
}
