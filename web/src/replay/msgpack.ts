/** What a file of MessagePack can hold here. */
export type Packable = string | number | Uint8Array | readonly Packable[] | PackableMap;
interface PackableMap {
  readonly [name: string]: Packable;
}

/** Encodes a value as [MessagePack](https://msgpack.org). Numbers must be integers from 0 to 2^32. */
export function packed(value: Packable): Blob {
  return new Blob([...pieces(value)], { type: "application/vnd.msgpack" });
}

function* pieces(value: Packable): Generator<Uint8Array<ArrayBuffer>> {
  if (typeof value === "number") yield header(value, 0x00, 0x80, [0xcc, 0xcd, 0xce]);
  else if (typeof value === "string") {
    const bytes = new TextEncoder().encode(value);
    yield header(bytes.length, 0xa0, 32, [0xd9, 0xda, 0xdb]);
    yield bytes;
  } else if (value instanceof Uint8Array) {
    yield header(value.length, 0, 0, [0xc4, 0xc5, 0xc6]);
    yield value as Uint8Array<ArrayBuffer>;
  } else if (isList(value)) {
    yield header(value.length, 0x90, 16, [null, 0xdc, 0xdd]);
    for (const one of value) yield* pieces(one);
  } else {
    const fields = Object.entries(value);
    yield header(fields.length, 0x80, 16, [null, 0xde, 0xdf]);
    for (const [name, field] of fields) {
      yield* pieces(name);
      yield* pieces(field);
    }
  }
}

function isList(value: Packable): value is readonly Packable[] {
  return Array.isArray(value);
}

/** The type byte and a size: in the type byte if below `small`, else in 1, 2 or 4 bytes. */
function header(
  size: number,
  short: number,
  small: number,
  [one, two, four]: [number | null, number, number],
): Uint8Array<ArrayBuffer> {
  if (size < small) return Uint8Array.of(short | size);
  if (size < 0x100 && one !== null) return Uint8Array.of(one, size);
  if (size < 0x10000) return Uint8Array.of(two, size >> 8, size & 0xff);
  const bytes = new Uint8Array(5);
  bytes[0] = four;
  new DataView(bytes.buffer).setUint32(1, size);
  return bytes;
}
