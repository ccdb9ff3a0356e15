import { type MicrophoneOptions, microphoneConstraints } from "../audio/microphone.ts";
import { devices } from "../settings/devices.ts";

/** Records the microphone until it is stopped. Created by `recordMicrophone`. */
export class MicrophoneRecorder {
  readonly stream: MediaStream;
  readonly #recorder: MediaRecorder;
  readonly #pieces: Blob[] = [];

  constructor(stream: MediaStream) {
    this.stream = stream;
    this.#recorder = new MediaRecorder(stream);
    this.#recorder.ondataavailable = ({ data }) => this.#pieces.push(data);
    this.#recorder.start();
  }

  /** Resolves to the audio in the format of the browser's recorder. */
  stop(): Promise<Blob> {
    return new Promise((resolve) => {
      this.#recorder.onstop = () =>
        resolve(new Blob(this.#pieces, { type: this.#recorder.mimeType }));
      this.cancel();
    });
  }

  cancel(): void {
    if (this.#recorder.state !== "inactive") this.#recorder.stop();
    for (const track of this.stream.getTracks()) track.stop();
  }
}

/** Voice samples need the unprocessed signal. */
const AS_IT_IS = { echoCancellation: false, noiseSuppression: false, autoGainControl: true };

/** Rejects with the browser's DOMException. */
export async function recordMicrophone(
  options: Omit<MicrophoneOptions, "deviceId"> = AS_IT_IS,
): Promise<MicrophoneRecorder> {
  const deviceId = devices.value.microphone ?? undefined;
  const audio = microphoneConstraints({ deviceId, ...options });
  return new MicrophoneRecorder(await navigator.mediaDevices.getUserMedia({ audio }));
}
