/** The package `antiphon-client`: clients of the protocols, sound, and calls without UI. */

export { AudioEngine, type AudioEngineOptions } from "../audio/audio-engine.ts";
export {
  type AudioSource,
  Capture,
  MediaFile,
  MICROPHONE_DEFAULTS,
  Microphone,
  openMicrophone,
} from "../audio/capture.ts";
export {
  base64FromSamples,
  Chunker,
  INPUT_RATE,
  OUTPUT_RATE,
  pcm16FromSamples,
  type Samples,
  samplesFromBase64,
} from "../audio/pcm.ts";
export { Player } from "../audio/player.ts";
export { Speaker } from "../audio/speaker.ts";
export type * from "../protocol/client-messages.ts";
export {
  type ChatClient,
  type ClientEvents,
  type ClientOptions,
  connectChat,
  connectDuplex,
  connectHalfDuplex,
  type DuplexClient,
  type HalfDuplexClient,
  newSessionId,
  ProtocolClient,
} from "../protocol/clients.ts";
export { keyProtocols } from "../protocol/key-protocols.ts";
export type {
  ChatServerMessage,
  DuplexServerMessage,
  HalfDuplexServerMessage,
} from "../protocol/server-messages.ts";
export {
  DuplexSession,
  type DuplexSessionOptions,
  type DuplexSessionState,
} from "../session/duplex-session.ts";
export type { TranscriptLine } from "../session/transcript.ts";
