import { html, nothing, type TemplateResult } from "lit";
import "../components/live-clock.ts";
import "../components/queue-panel.ts";
import { icon } from "../ui/icon.ts";
import "./call-orb.ts";
import { controls, startArea } from "./controls.ts";
import { farewell } from "./farewell.ts";
import { notices } from "./notices.ts";
import { picture, showsPicture } from "./picture.ts";
import { announcement, standing } from "./standing.ts";
import type { CallView } from "./view.ts";
import { words } from "./words.ts";
import "./stage.css";
import "./landscape.css";

/** The call itself: who speaks, how it stands, what can be done about it. */
export function stage(view: CallView): TemplateResult {
  const { talk } = view.state;
  return html`<section class="stage ${talk.phase} ${showsPicture(view) ? "seeing" : ""}">
    <div class="top">${head(view)} ${panelButton(view)}</div>
    ${notices(view)}
    <div class="middle">${middle(view)}</div>
    <div class="bottom">${bottom(view)}</div>
    <p class="visually-hidden" role="status">${announcement(talk)}</p>
  </section>`;
}

function head({ call, state }: CallView): TemplateResult {
  const say = words();
  const { since, until, talk } = state;
  return html`<div class="grow">
    <div class="row tight">
      <h1>${say.title[call.kind]}</h1>
      ${
        since !== null
          ? html`<an-live-clock class="soft number" .from=${since} .until=${until}></an-live-clock>`
          : nothing
      }
    </div>
    <div class="row tight">
      ${talk.phase === "active" || talk.phase === "paused" ? consent(state.recorded) : nothing}
      ${
        talk.simulated
          ? html`<span class="badge caution" title=${say.simulatedHint}>${say.simulated}</span>`
          : nothing
      }
    </div>
  </div>`;
}

function consent(recorded: boolean): TemplateResult {
  const say = words();
  const [text, hint] = recorded
    ? [say.recorded, say.recordedHint]
    : [say.notRecorded, say.notRecordedHint];
  return html`<span class="badge ${recorded ? "danger dot" : ""}" title=${hint}>${text}</span>`;
}

/** Where the panel has no room beside the stage. */
function panelButton({ state, verbs }: CallView): TemplateResult {
  const talks = state.talk.phase !== "idle";
  return html`<button
    class="button quiet square opens-panel"
    aria-label=${words().openTranscript}
    popovertarget="side-panel"
    @click=${() => verbs.open(talks ? "transcript" : "settings")}
  >
    ${icon(talks ? "chat" : "settings")}
  </button>`;
}

function middle(view: CallView): TemplateResult {
  const { talk } = view.state;
  if (talk.phase === "ended") return farewell(view);
  const { mode, title, hint } = standing(talk);
  const orb = html`${showsPicture(view) ? picture(view) : nothing}
    <an-call-orb .call=${view.call} .mode=${mode}></an-call-orb>`;
  if (talk.phase === "queued") {
    return html`${orb}<an-queue-panel .place=${talk.place} @leave=${view.verbs.hangUp}></an-queue-panel>`;
  }
  return html`${orb}
    <div class="standing">
      <p class="title">${title}</p>
      <p class="soft">${talk.phase === "idle" ? words().invitation[view.call.kind] : hint}</p>
    </div>
    ${caption(view)}`;
}

/** The model's last words, where the transcript is out of sight. */
function caption({ state }: CallView): TemplateResult | typeof nothing {
  const last = state.talk.transcript.at(-1);
  if (state.talk.phase !== "active" || last?.role !== "model") return nothing;
  return html`<p class="caption" aria-hidden="true"><span>${last.text}</span></p>`;
}

function bottom(view: CallView): TemplateResult {
  const { phase } = view.state.talk;
  if (phase === "queued") return html`${nothing}`; // the panel has the way out
  return phase === "idle" || phase === "ended" ? startArea(view) : controls(view);
}
