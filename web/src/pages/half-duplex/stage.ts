import { html, nothing, type TemplateResult } from "lit";
import { clock, seconds } from "../../i18n/format.ts";
import type { HalfDuplexState } from "../../session/half-duplex-state.ts";
import { icon } from "../../ui/icon.ts";
import type { Call } from "./call.ts";
import { settings } from "./settings.ts";
import { modeOf, type Stage, stageOf } from "./stage-state.ts";
import { words } from "./words.ts";

const SHOWN_BELOW_S = 2; // less than the whole time: something has not been sent for so long
const SOON_S = 20;

/** Whose turn it is, how loud, and what can be done now. */
export function stage(call: Call, check: () => void): TemplateResult {
  const state = call.state;
  const at = stageOf(state);
  const say = words();
  return html`<section class="card stage" aria-label=${say.stage}>
    <an-voice-orb mode=${modeOf(at)}></an-voice-orb>
    <div class="stack tight middle">
      <h2><span role="status">${say.state[at]}</span>${spokenFor(at, call)}</h2>
      <p class="soft hint">${hint(at)}</p>
      ${countdown(state)}
    </div>
    <div class="row controls">${call.running ? running(at, call) : resting(at, call, check)}</div>
  </section>`;
}

function spokenFor(at: Stage, call: Call): TemplateResult | typeof nothing {
  if (at !== "hearing") return nothing;
  const spokenS = (performance.now() - call.heardSince) / 1000;
  return html`<span class="soft number" aria-hidden="true"> ${clock(spokenS)}</span>`;
}

function hint(at: Stage): string {
  const say = words().hint;
  const hints: Partial<Record<Stage, string>> = {
    ...say,
    listening: say.listening(seconds(settings.value.minSilenceMs / 1000)),
  };
  return hints[at] ?? "";
}

/** Only while nothing is sent. */
function countdown(state: HalfDuplexState | null): TemplateResult | typeof nothing {
  if (state?.phase !== "active" || !state.quietDeadline || !state.timeoutS) return nothing;
  const leftS = (state.quietDeadline - performance.now()) / 1000;
  if (leftS > state.timeoutS - SHOWN_BELOW_S) return nothing;
  const text = clock(Math.max(0, leftS));
  const say = words();
  return html`<p class="badge dot countdown ${leftS < SOON_S ? "caution" : ""}" title=${say.leftLong(text)}>
    <span class="number" role="timer">${say.left(text)}</span>
  </p>`;
}

function resting(at: Stage, call: Call, check: () => void): TemplateResult {
  const say = words();
  return html`<button class="button primary large" @click=${call.start}>
      ${icon("mic")} ${at === "idle" ? say.start : say.again}
    </button>
    ${
      at === "idle"
        ? html`<button class="button quiet" @click=${check}>${say.check}</button>`
        : nothing
    }`;
}

function running(at: Stage, call: Call): TemplateResult {
  const say = words();
  const muted = call.state?.muted ?? false;
  const answers = at === "thinking" || at === "speaking" || at === "writing";
  return html`<button
      class="button square large"
      aria-label=${muted ? say.unmute : say.mute}
      aria-pressed=${muted}
      ?disabled=${call.state?.phase !== "active"}
      @click=${call.toggleMuted}
    >
      ${icon(muted ? "micOff" : "mic")}
    </button>
    <button class="button large stop-reply" ?disabled=${!answers} @click=${call.stopReply}>
      ${icon("hand")} ${say.stopReply}
    </button>
    <button class="button danger large" ?disabled=${at === "stopping"} @click=${call.stop}>
      ${icon("stop")} ${say.end}
    </button>`;
}
