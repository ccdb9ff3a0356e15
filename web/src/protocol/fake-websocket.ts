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

  drop(code: number): void {
    this.readyState = 3;
    this.onclose({ code, reason: "" });
  }
}
