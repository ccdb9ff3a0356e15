import { html, nothing, type TemplateResult } from "lit";
import type { Ending } from "../session/conversation-state.ts";
import { icon } from "../ui/icon.ts";
import { endingWords } from "./ending-words.ts";

/**
 * Why a conversation ended and what can be done; nothing where the user wanted it, or where the
 * session banner says it (a connection that was lost for too long).
 */
export function endingNotice(ending: Ending | null): TemplateResult | typeof nothing {
  const words = ending?.code === "lost" ? null : ending && endingWords(ending);
  if (!words) return nothing;
  const calm = ending?.by === "timeout";
  return html`<div class="callout ${calm ? "caution" : "danger"}" role="alert">
    ${icon(calm ? "clock" : "alert")}
    <div class="grow">
      <p class="strong">${words.title}</p>
      <p class="soft">${words.remedy}</p>
    </div>
  </div>`;
}
