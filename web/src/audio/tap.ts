import { TAP_PROCESSOR, type TapBlock, type TapOptions } from "./tap-options.ts";
import workletUrl from "./tap-worklet.ts?worker&url";

/**
 * A node that hands everything that is connected to it to `onBlock`. It makes no sound, and runs until
 * it is disconnected from its inputs and `closeTap` is called.
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
  node.connect(context.destination); // a node that leads nowhere is not run; its output is silence
  return node;
}

export function closeTap(node: AudioWorkletNode): void {
  node.port.onmessage = null;
  node.disconnect();
}
