/** A complete `result` message of a duplex session. */
export const RESULT = {
  type: "result",
  is_listen: false,
  text: "Hello",
  audio_data: "",
  end_of_turn: false,
  current_time: 5000,
  cost_llm_ms: 45.2,
  cost_tts_prep_ms: 0,
  cost_tts_ms: 12.3,
  cost_token2wav_ms: 0,
  cost_all_ms: 78.5,
  n_tokens: 3,
  n_tts_tokens: 0,
  server_send_ts: 1708771200.123,
  wall_clock_ms: 90,
  kv_cache_length: 512,
  vision_slices: 0,
  vision_tokens: 0,
};

/** A complete `done` message of a chat. */
export const DONE = {
  type: "done",
  text: "",
  generated_tokens: 1,
  input_tokens: 1,
  recording_session_id: "r",
};

/** A WebSocket whose server is the test. */
export class FakeWebSocket {
  static readonly OPEN = 1;
  static all: FakeWebSocket[] = [];
  readonly url: URL;
  readonly protocols: string[];
  readonly protocol = "";
  readonly sent: Record<string, unknown>[] = [];
  readyState = 0;
  binaryType = "";
  onopen = (): void => undefined;
  onmessage = (_: { data: string }): void => undefined;
  onclose = (_: { code: number; reason: string }): void => undefined;

  constructor(url: URL, protocols: string[]) {
    this.url = url;
    this.protocols = protocols;
    FakeWebSocket.all.push(this);
  }

  static get last(): FakeWebSocket {
    return FakeWebSocket.all.at(-1) as FakeWebSocket;
  }

  accept(): void {
    this.readyState = FakeWebSocket.OPEN;
    this.onopen();
  }

  say(message: object): void {
    this.onmessage({ data: JSON.stringify(message) });
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(code = 1000): void {
    this.drop(code);
  }

  drop(code: number, reason = ""): void {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
}
