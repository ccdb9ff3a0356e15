/** Something that a capture listens to. */
export interface AudioSource {
  /** Its sound in `context`. Asked again with another context where the first one refuses the source. */
  connect(context: AudioContext): Promise<AudioNode>;
  /** Let it be heard from now on, or go on after `pause`; a microphone always is. */
  start(): Promise<void>;
  pause(): void;
  setMuted(muted: boolean): void;
  /** It has ended by itself: the device is gone, or the file was played. */
  onEnd(listener: () => void): void;
  close(): void;
}
