/** An audio input of `Capture`. */
export interface AudioSource {
  /**
   * Connects the source to `context`. Called again with another context if the first one is
   * refused.
   */
  connect(context: AudioContext): Promise<AudioNode>;
  /** Starts or resumes the source. A microphone always runs. */
  start(): Promise<void>;
  pause(): void;
  setMuted(muted: boolean): void;
  /** The source ended: the device was disconnected or the file finished. */
  onEnd(listener: () => void): void;
  close(): void;
}
