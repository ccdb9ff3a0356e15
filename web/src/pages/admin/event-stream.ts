/** One event of a `text/event-stream` body. */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/** Events as they come; ends with the body. What arrives in pieces is put together. */
export async function* streamEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<StreamEvent, void> {
  const letters = new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>;
  const reader = body.pipeThrough(letters).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) yield read(block);
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it may have failed already
  }
}

function read(block: string): StreamEvent {
  const fields = block.split("\n").map((line) => line.split(/: ?(.*)/s, 2));
  const value = (name: string) => fields.find(([field]) => field === name)?.[1] ?? "";
  return { name: value("event"), data: value("data") };
}
