import { html, nothing, type TemplateResult } from "lit";
import { endingWords, type ProblemWords } from "../components/ending-words.ts";
import "../components/save-share.ts";
import { clock } from "../i18n/format.ts";
import type { Ending } from "../session/conversation-state.ts";
import { icon } from "../ui/icon.ts";
import type { CallState } from "./call.ts";
import type { CallView } from "./view.ts";
import { words } from "./words.ts";
import "./farewell.css";

/** After a call: why it ended, how long it was, what is left of it. */
export function farewell({ call, state }: CallView): TemplateResult {
  const say = words();
  const { ending, recordingId } = state.talk;
  const reason = ending && reasonWords(ending);
  const calm = ending?.by === "user" || ending?.by === "timeout";
  return html`<div class="farewell" role=${reason && !calm ? "alert" : nothing}>
    <span class="sign ${calm ? "" : "bad"}">${icon(calm ? "phone" : "alert")}</span>
    <p class="title">${reason?.title ?? say.state.ended}</p>
    ${reason ? html`<p class="soft">${reason.remedy}</p>` : nothing}
    ${state.since !== null ? html`<p class="soft">${say.lasted(lengthOf(state))}</p>` : nothing}
    ${
      state.since !== null
        ? html`<an-save-share
            .recordingId=${state.recorded ? recordingId : null}
            .sound=${state.takes.sound}
            .film=${state.takes.film}
            .stem=${call.kind}
          ></an-save-share>`
        : nothing
    }
  </div>`;
}

function reasonWords(ending: Ending): ProblemWords | null {
  const say = words();
  if (ending.by === "timeout") return { title: say.pauseOver, remedy: say.pauseOverHint };
  return endingWords(ending);
}

function lengthOf({ since, until }: CallState): string {
  return clock(((until ?? performance.now()) - (since ?? 0)) / 1000);
}
