import { html, nothing, type TemplateResult } from "lit";
import { defineStrings, formatClock } from "../i18n/language.ts";
import { saveBlob, savedName } from "../session/browser-recording.ts";
import { showError } from "../shell/errors.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { toast } from "../ui/toasts.ts";

const strings = defineStrings(
  {
    copy: "Copy transcript",
    copied: "Transcript copied",
    notCopied: "Cannot copy",
    save: "Save as text",
    user: "You",
    model: "Model",
    system: "Instructions",
    cut: "interrupted",
  },
  {
    copy: "复制转写",
    copied: "已复制转写",
    notCopied: "无法复制",
    save: "存为文本",
    user: "您",
    model: "模型",
    system: "系统提示",
    cut: "被打断",
  },
);

/** What somebody said or wrote. */
export interface TextLine {
  readonly role: "user" | "model" | "system";
  readonly text: string;
  readonly atMs?: number;
  /** The speaker was interrupted. */
  readonly cut?: boolean;
}

/** A conversation as plain text, without empty lines: `0:04 You: Hello.` */
export function transcriptText(lines: readonly TextLine[]): string {
  return lines
    .filter(({ text }) => text.trim() !== "")
    .map(({ role, text, atMs, cut }) => {
      const end = cut ? ` (${strings().cut})` : "";
      const time = atMs === undefined ? "" : `${formatClock(atMs / 1000)} `;
      return `${time}${strings()[role]}: ${text.trim()}${end}\n`;
    })
    .join("\n");
}

/** Copies the text and shows `done`, or why it cannot. Without a secure context there is no clipboard. */
export async function copyText(text: string, done: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast({ tone: "good", title: done });
  } catch (error) {
    showError(error, strings().notCopied);
  }
}

/**
 * Buttons that copy a conversation and save it as a text file. Nothing without a line. `kind` and `when`
 * are for the name of the file, see `savedName`. `named`: with their names, where no title is beside them.
 */
export function transcriptButtons(
  lines: readonly TextLine[],
  kind: string,
  { when, named = false }: { when?: string; named?: boolean } = {},
): TemplateResult | typeof nothing {
  const text = transcriptText(lines);
  if (text === "") return nothing;
  const t = strings();
  const copy = (): Promise<void> => copyText(text, t.copied);
  const save = (): void =>
    saveBlob(`${savedName(kind, when)}.txt`, new Blob([text], { type: "text/plain" }));
  const button = named ? namedButton : iconButton;
  return html`${button("copy", t.copy, copy)} ${button("download", t.save, save)}`;
}

function namedButton(name: IconName, label: string, run: () => void): TemplateResult {
  return html`<button class="button quiet small" @click=${run}>${icon(name)} ${label}</button>`;
}

function iconButton(name: IconName, label: string, run: () => void): TemplateResult {
  return html`<button class="button quiet square small" aria-label=${label} title=${label} @click=${run}>
    ${icon(name)}
  </button>`;
}
