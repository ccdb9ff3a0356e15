import { html, type TemplateResult } from "lit";
import "../components/device-select.ts";
import "../components/audio-mixer.ts";
import { sidePanel } from "../ui/side-panel.ts";
import { tabPanel, tabs } from "../ui/tabs.ts";
import { metricsPanel } from "./metrics-panel.ts";
import { settingsPanel } from "./settings-panel.ts";
import "./transcript-view.ts";
import { type CallView, isBusy, TABS } from "./call-view.ts";
import { callStrings } from "./strings.ts";
import "./panel.css";

const ID = "call";

/** The side panel of a call: transcript, audio, metrics, settings. */
export function callPanel(view: CallView): TemplateResult {
  const t = callStrings();
  const group = { id: ID, value: view.tab };
  const body = html`${tabs({
    ...group,
    label: t.panel,
    options: TABS.map((value) => ({ value, label: t.tabs[value] })),
    onChange: view.actions.open,
  })}
  ${tabPanel(group, "transcript", transcript(view))} ${tabPanel(group, "audio", audio(view))}
  ${tabPanel(group, "metrics", metricsPanel(view))}
  ${tabPanel(group, "settings", settingsPanel(view))}`;
  return sidePanel({ label: t.panel, body });
}

function transcript({ state: { sessionState } }: CallView): TemplateResult {
  return html`<an-transcript .lines=${sessionState.transcript}></an-transcript>`;
}

function audio(view: CallView): TemplateResult {
  const { call, state, actions } = view;
  const asleep = state.sessionState.phase === "opening" || state.sessionState.phase === "stopping";
  return html`<div class="stack loose">
    <an-audio-mixer .audio=${isBusy(state) ? call.session?.audio : undefined}></an-audio-mixer>
    <hr />
    <an-device-select
      ?camera=${call.kind === "omni"}
      ?disabled=${asleep}
      @change=${(event: CustomEvent<string>) => actions.changed(event.detail)}
    ></an-device-select>
  </div>`;
}
