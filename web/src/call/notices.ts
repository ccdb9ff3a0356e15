import { html, nothing, type TemplateResult } from "lit";
import "../components/connection-banner.ts";
import "../components/kept-recordings.ts";
import type { Limit } from "../session/duplex-session.ts";
import { icon } from "../ui/icon.ts";
import type { CallView } from "./call-view.ts";
import type { InputProblem } from "./input-check.ts";
import { callStrings } from "./strings.ts";

/** Notices during a call. */
export function callNotices(view: CallView): TemplateResult | typeof nothing {
  const { sessionState, file } = view.state;
  if (sessionState.phase === "ended") return nothing;
  if (sessionState.phase === "idle") {
    return html`<div class="notices"><an-kept-recordings></an-kept-recordings></div>`;
  }
  const lost = sessionState.connection.state === "reconnecting";
  const problem = sessionState.phase === "active" ? view.state.inputProblem : null;
  const played = sessionState.sourceEnded && file !== null;
  return html`<div class="notices">
    ${lost ? html`<an-connection-banner .connection=${sessionState.connection} @retry=${view.actions.retry}></an-connection-banner>` : nothing}
    ${sessionState.phase === "paused" && sessionState.pauseDeadline !== null ? pauseEnds(sessionState.pauseDeadline) : nothing}
    ${sessionState.limit ? limitNear(sessionState.limit) : nothing} ${played ? filePlayed(view) : nothing} ${problem ? badInput(problem, view) : nothing}
  </div>`;
}

function badInput(problem: InputProblem, { actions }: CallView): TemplateResult {
  const t = callStrings();
  const [title, hint] = problem === "echo" ? [t.echo, t.echoHint] : [t.silent, t.silentHint];
  return html`<div class="callout caution" role="status">
    ${icon(problem === "echo" ? "speaker" : "mic")}
    <div class="grow">
      <p class="strong">${title}</p>
      <p class="soft">${hint}</p>
      <button class="button small" @click=${() => actions.show("settings")}>
        ${icon("settings")} ${t.chooseDevices}
      </button>
    </div>
  </div>`;
}

function pauseEnds(deadline: number): TemplateResult {
  return html`<div class="callout">
    ${icon("clock")}
    <p>${callStrings().state.pausedLeft} <an-timer class="number" .deadline=${deadline}></an-timer></p>
  </div>`;
}

function limitNear({ of, deadline }: Limit): TemplateResult {
  const t = callStrings();
  return html`<div class="callout caution" role="status">
    ${icon("clock")}
    <p>
      ${of === "context" ? t.contextNear : t.durationNear}
      <an-timer class="number" .deadline=${deadline}></an-timer>
    </p>
  </div>`;
}

function filePlayed({ actions }: CallView): TemplateResult {
  const t = callStrings();
  return html`<div class="callout" role="status">
    ${icon("info")}
    <div class="grow">
      <p class="strong">${t.fileEnded}</p>
      <p class="soft">${t.fileEndedHint}</p>
      <button class="button small" @click=${actions.useMicrophone}>${icon("mic")} ${t.useMicrophone}</button>
    </div>
  </div>`;
}
