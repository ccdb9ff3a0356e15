import { html, type TemplateResult } from "lit";
import "../components/device-choice.ts";
import "../components/sound-mixer.ts";
import { sidePanel } from "../ui/side-panel.ts";
import { tabPanel, tabs } from "../ui/tabs.ts";
import { measuresPanel } from "./measures.ts";
import { settingsPanel } from "./settings-panel.ts";
import "./transcript-view.ts";
import { type CallView, isBusy, TABS } from "./view.ts";
import { words } from "./words.ts";
import "./panel.css";

const ID = "call";

/** What lies beside the call: what was said, sound, measures, settings. */
export function panel(view: CallView): TemplateResult {
  const say = words();
  const group = { id: ID, value: view.tab };
  const body = html`${tabs({
    ...group,
    label: say.panel,
    options: TABS.map((value) => ({ value, label: say.tabs[value] })),
    onChange: view.verbs.open,
  })}
  ${tabPanel(group, "transcript", transcript(view))} ${tabPanel(group, "sound", sound(view))}
  ${tabPanel(group, "measures", measuresPanel(view))}
  ${tabPanel(group, "settings", settingsPanel(view))}`;
  return sidePanel({ label: say.panel, body });
}

function transcript({ state: { talk } }: CallView): TemplateResult {
  return html`<an-transcript .lines=${talk.transcript}></an-transcript>`;
}

function sound(view: CallView): TemplateResult {
  const { call, state, verbs } = view;
  const asleep = state.talk.phase === "opening" || state.talk.phase === "stopping";
  return html`<div class="stack loose">
    <an-sound-mixer .desk=${isBusy(state) ? call.session?.desk : undefined}></an-sound-mixer>
    <hr />
    <an-device-choice
      ?camera=${call.kind === "omni"}
      ?disabled=${asleep}
      @change=${(event: CustomEvent<string>) => verbs.changed(event.detail)}
    ></an-device-choice>
  </div>`;
}
