/**
 * Parses the Markdown subset that models write: paragraphs, headings, lists, code, bold, italics.
 * Pure.
 */

export type MarkdownBlock =
  | { readonly type: "paragraph" | "heading"; readonly text: string }
  | { readonly type: "code"; readonly text: string }
  | { readonly type: "list"; readonly start: number | null; readonly items: readonly string[] };

export interface InlineRun {
  readonly style: "plain" | "strong" | "em" | "code";
  readonly text: string;
}

const FENCE = /^\s*```/;
const HEADING = /^#{1,6}\s+(.*)$/;
const ITEM = /^\s*(?:[-*•]|(\d{1,4})[.)])\s+(.*)$/;
const RUN = /\*\*(?=\S)([\s\S]+?)(?<=\S)\*\*|\*(?=\S)([^*]+?)(?<=\S)\*|`([^`]+)`/g;

/** Parses text that may still grow. Open markup at the end counts as closed. */
export function parseBlocks(text: string): MarkdownBlock[] {
  const blocks: MarkdownBlock[] = [];
  const lines = text.split("\n");
  while (lines.length > 0) {
    const line = lines.shift() as string;
    if (FENCE.test(line)) blocks.push({ type: "code", text: takeCode(lines) });
    else if (line.trim() !== "") addLine(blocks, line, lines);
  }
  return blocks;
}

/** Parses inline styles. */
export function parseInline(text: string): InlineRun[] {
  const runs: InlineRun[] = [];
  let at = 0;
  for (const match of text.matchAll(RUN)) {
    if (match.index > at) runs.push({ style: "plain", text: text.slice(at, match.index) });
    runs.push(styled(match));
    at = match.index + match[0].length;
  }
  if (at < text.length) runs.push({ style: "plain", text: text.slice(at) });
  return runs;
}

function styled([, strong, em, code]: RegExpExecArray): InlineRun {
  if (strong !== undefined) return { style: "strong", text: strong };
  if (em !== undefined) return { style: "em", text: em };
  return { style: "code", text: code ?? "" };
}

function takeCode(lines: string[]): string {
  const end = lines.findIndex((line) => FENCE.test(line));
  const code = lines.splice(0, end < 0 ? lines.length : end);
  lines.shift();
  return code.join("\n");
}

function addLine(blocks: MarkdownBlock[], line: string, rest: string[]): void {
  const heading = HEADING.exec(line)?.[1];
  const item = ITEM.exec(line);
  if (heading !== undefined) blocks.push({ type: "heading", text: heading });
  else if (item) blocks.push(takeList(item, rest));
  else blocks.push({ type: "paragraph", text: [line, ...takeParagraph(rest)].join("\n") });
}

function takeList(first: RegExpExecArray, lines: string[]): MarkdownBlock {
  const items = [first[2] ?? ""];
  for (let item = ITEM.exec(lines[0] ?? ""); item; item = ITEM.exec(lines[0] ?? "")) {
    lines.shift();
    items.push(item[2] ?? "");
  }
  return { type: "list", start: first[1] === undefined ? null : Number(first[1]), items };
}

function takeParagraph(lines: string[]): string[] {
  const end = lines.findIndex(
    (line) => line.trim() === "" || FENCE.test(line) || HEADING.test(line) || ITEM.test(line),
  );
  return lines.splice(0, end < 0 ? lines.length : end);
}
