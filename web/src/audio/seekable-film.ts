import {
  BlobSource,
  BufferTarget,
  Conversion,
  Input,
  MATROSKA,
  MP4,
  Mp4OutputFormat,
  Output,
  WEBM,
  WebMOutputFormat,
} from "mediabunny";

/**
 * Writes a film again with its duration and an index. Pictures and sound are copied, not encoded.
 * Large: import it when it is needed. Rejects if the film cannot be read.
 */
export async function seekableFilm(film: Blob): Promise<Blob> {
  const target = new BufferTarget();
  const isMp4 = film.type.includes("mp4");
  const format = isMp4 ? new Mp4OutputFormat({ fastStart: "in-memory" }) : new WebMOutputFormat();
  const input = new Input({ source: new BlobSource(film), formats: [MP4, WEBM, MATROSKA] });
  const conversion = await Conversion.init({
    input,
    output: new Output({ format, target }),
    showWarnings: false,
  });
  if (!conversion.isValid) throw new RangeError("the film has a track that cannot be copied");
  await conversion.execute();
  if (target.buffer === null) throw new RangeError("the film is empty");
  return new Blob([target.buffer], { type: film.type });
}
