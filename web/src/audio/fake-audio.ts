import { vi } from "vitest";

/** A part of an audio graph. */
function fakeNode() {
  const node = {
    context: { currentTime: 0 },
    gain: { setTargetAtTime: () => undefined },
    port: {},
    stream: {},
    connect: () => node,
    disconnect: () => undefined,
  };
  return node;
}

/** An AudioContext without sound. */
export class FakeAudioContext extends EventTarget {
  static all: FakeAudioContext[] = [];
  static loadWorklet = (): Promise<void> => Promise.resolve();
  static setSink = (_id: string): Promise<void> => Promise.resolve();
  state = "running";
  readonly audioWorklet = { addModule: () => FakeAudioContext.loadWorklet() };
  readonly destination = fakeNode();
  readonly currentTime = 0;
  readonly createGain = fakeNode;
  readonly createMediaStreamDestination = fakeNode;
  readonly createMediaStreamSource = vi.fn(fakeNode);
  readonly setSinkId = vi.fn((id: string) => FakeAudioContext.setSink(id));
  readonly resume = async (): Promise<void> => undefined;
  readonly suspend = async (): Promise<void> => undefined;

  constructor() {
    super();
    FakeAudioContext.all.push(this);
  }

  async close(): Promise<void> {
    this.state = "closed";
  }
}

/** A track of a fake device. */
export function fakeTrack() {
  return Object.assign(new EventTarget(), {
    enabled: true,
    label: "",
    stop: vi.fn(),
    getSettings: () => ({}),
  });
}

export type FakeTrack = ReturnType<typeof fakeTrack>;

export function fakeStream(track: FakeTrack = fakeTrack()): MediaStream {
  const tracks = () => [track];
  return {
    getTracks: tracks,
    getAudioTracks: tracks,
    getVideoTracks: tracks,
  } as unknown as MediaStream;
}

/** Replaces the audio of the browser. `vi.unstubAllGlobals` restores it. */
export function stubAudio(): void {
  FakeAudioContext.all = [];
  FakeAudioContext.loadWorklet = () => Promise.resolve();
  FakeAudioContext.setSink = () => Promise.resolve();
  vi.stubGlobal("AudioContext", FakeAudioContext);
  vi.stubGlobal("AudioWorkletNode", function FakeWorkletNode() {
    return fakeNode();
  });
}

/** Replaces the devices. `open` is `getUserMedia`. */
export function stubDevices(open: (constraints: MediaStreamConstraints) => Promise<MediaStream>) {
  const getUserMedia = vi.fn(open);
  Object.defineProperty(navigator, "mediaDevices", { configurable: true, value: { getUserMedia } });
  return getUserMedia;
}
