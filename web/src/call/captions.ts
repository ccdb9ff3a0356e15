import { html, nothing, type TemplateResult } from "lit";
import type { TranscriptLine } from "../session/transcript.ts";
import { callStrings } from "./strings.ts";
import "./captions.css";

/** The last words of both sides. Long texts show their end. The panel has the whole transcript. */
export function captions(lines: readonly TranscriptLine[]): TemplateResult {
  const last = [
    lines.findLast(({ role }) => role === "user"),
    lines.findLast(({ role }) => role === "model"),
  ].filter((line) => line !== undefined);
  return html`<div class="captions">${last.sort((a, b) => a.id - b.id).map(caption)}</div>`;
}

function caption({ role, text, cut }: TranscriptLine): TemplateResult {
  const t = callStrings();
  return html`<p class="caption ${role}">
    <span
      ><span class="visually-hidden">${role === "user" ? t.you : t.model}: </span>${text.trim()}${
        cut ? html` <small>${t.interrupted}</small>` : nothing
      }</span
    >
  </p>`;
}
