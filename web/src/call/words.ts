import { html, nothing, type TemplateResult } from "lit";
import { playedParts, type TranscriptLine } from "../session/transcript.ts";
import "./words.css";

/**
 * The text of a line. What is not certain yet is grey: the words of a user who still speaks, and those
 * of the model that were not played.
 */
export function words(line: TranscriptLine): TemplateResult {
  const [played, rest] = playedParts(line);
  const first = line.interim ? html`<span class="grey">${played}</span>` : html`${played}`;
  return html`${first}${rest === "" ? nothing : html`<span class="grey">${rest}</span>`}`;
}
