import { html, nothing, type TemplateResult } from "lit";
import "../components/session-banner.ts";
import type { Limit } from "../session/duplex-state.ts";
import { icon } from "../ui/icon.ts";
import type { CallView } from "./view.ts";
import { words } from "./words.ts";

/** What one should know while the call goes on. */
export function notices(view: CallView): TemplateResult | typeof nothing {
  const { talk, file } = view.state;
  if (talk.phase === "idle" || talk.phase === "ended") return nothing;
  const lost = talk.link.state === "reconnecting";
  const played = talk.sourceEnded && file !== null;
  return html`<div class="notices">
    ${lost ? html`<an-session-banner .link=${talk.link} @retry=${view.verbs.retry}></an-session-banner>` : nothing}
    ${talk.phase === "paused" && talk.pauseDeadline !== null ? pauseEnds(talk.pauseDeadline) : nothing}
    ${talk.limit ? limitNear(talk.limit) : nothing} ${played ? filePlayed(view) : nothing}
  </div>`;
}

function pauseEnds(deadline: number): TemplateResult {
  return html`<div class="callout">
    ${icon("clock")}
    <p>${words().state.pausedLeft} <an-live-clock class="number" .deadline=${deadline}></an-live-clock></p>
  </div>`;
}

function limitNear({ of, deadline }: Limit): TemplateResult {
  const say = words();
  return html`<div class="callout caution" role="status">
    ${icon("clock")}
    <p>
      ${of === "context" ? say.contextNear : say.durationNear}
      <an-live-clock class="number" .deadline=${deadline}></an-live-clock>
    </p>
  </div>`;
}

function filePlayed({ verbs }: CallView): TemplateResult {
  const say = words();
  return html`<div class="callout" role="status">
    ${icon("info")}
    <div class="grow">
      <p class="strong">${say.filePlayed}</p>
      <p class="soft">${say.filePlayedHint}</p>
      <button class="button small" @click=${verbs.useMicrophone}>${icon("mic")} ${say.useMicrophone}</button>
    </div>
  </div>`;
}
