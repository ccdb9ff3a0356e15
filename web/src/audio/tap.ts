import { TAP_PROCESSOR, type TapBlock, type TapOptions } from "./tap-options.ts";
import workletUrl from "./tap-worklet.ts?worker&url";

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
  const node = new AudioWorkletNode(context, TAP_PROCESSOR, {
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
