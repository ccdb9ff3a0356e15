import type { TAP_PROCESSOR, TapBlock, TapOptions } from "./tap-worklet.ts";
import workletUrl from "./tap-worklet.ts?worker&url";

/**
 * Resumes an audio context that the browser suspended, for example during a phone call. Does
 * nothing while `paused` returns true. Ends when the context closes.
 */
export function resumeWhenVisible(
  context: AudioContext,
  paused: () => boolean = () => false,
): void {
  const wake = (): void => {
    const asleep = context.state !== "running" && context.state !== "closed";
    if (!asleep || paused() || document.visibilityState !== "visible") return;
    context.resume().catch(() => undefined); // the system still uses the audio
  };
  context.addEventListener("statechange", () => {
    wake();
    if (context.state === "closed") document.removeEventListener("visibilitychange", wake);
  });
  document.addEventListener("visibilitychange", wake);
}

/** Whether the browser can process audio: it is not too old, and the page is secure. */
export function canProcessAudio(): boolean {
  return isSecureContext && "AudioContext" in globalThis && "AudioWorkletNode" in globalThis;
}

const STARTS_WITHIN_MS = 8000;

/** Starts a context. Rejects with TimeoutError if the browser has no audio output to run it. */
export async function startContext(context: AudioContext): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const error = new DOMException("the browser does not start audio", "TimeoutError");
    timer = setTimeout(() => reject(error), STARTS_WITHIN_MS);
  });
  try {
    await Promise.race([context.resume(), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A type import keeps the code of the worklet out of the page. */
const PROCESSOR: typeof TAP_PROCESSOR = "antiphon-tap";

/**
 * Creates a node that passes its input to `onBlock`. It has no audible output. It runs until its
 * inputs are disconnected and `closeTap` is called.
 */
export async function openTap(
  context: AudioContext,
  options: TapOptions,
  onBlock: (block: TapBlock) => void,
): Promise<AudioWorkletNode> {
  await context.audioWorklet.addModule(workletUrl);
  const node = new AudioWorkletNode(context, PROCESSOR, {
    numberOfInputs: 1,
    numberOfOutputs: 1,
    outputChannelCount: [1],
    channelCount: options.channels,
    channelCountMode: "explicit",
    channelInterpretation: options.channels === 1 ? "speakers" : "discrete",
    processorOptions: options,
  });
  node.port.onmessage = ({ data }: MessageEvent<TapBlock>) => onBlock(data);
  node.connect(context.destination); // browsers do not run unconnected nodes; the output is silent
  return node;
}

export function closeTap(node: AudioWorkletNode): void {
  node.port.onmessage = null;
  node.disconnect();
}
