import "./audio-mixer.ts";
import "./event-list.ts";
import "./transcript-view.ts";
import { html, nothing, type TemplateResult } from "lit";
import { common } from "../i18n/common.ts";
import { helpButton } from "../shell/help-drawer.ts";
import { icon } from "../ui/icon.ts";
import { tabPanel, tabs } from "../ui/tabs.ts";
import { type CallView, DEVELOPER_TABS, isBusy, type Panel } from "./call-view.ts";
import { metricsPanel } from "./metrics-panel.ts";
import { settingsPanel } from "./settings-panel.ts";
import { callStrings } from "./strings.ts";
import "./panel.css";

const ID = "call-panel";
const BODIES: Record<Panel, (view: CallView) => TemplateResult> = {
  transcript: ({ state }) =>
    html`<an-transcript .lines=${state.sessionState.transcript}></an-transcript>`,
  settings: settingsPanel,
  developer,
};

/** The open panel: beside the stage, or on narrow screens a sheet over it. */
export function callPanel(view: CallView): TemplateResult {
  const { panel, actions } = view;
  const close = (): void => actions.show(null);
  const title = panel === null ? "" : callStrings().panels[panel];
  return html`<div class="panel-backdrop" ?hidden=${panel === null} @click=${close}></div>
    <aside
      class="call-panel ${panel ?? ""}"
      id=${ID}
      tabindex="-1"
      aria-label=${title}
      ?hidden=${panel === null}
    >
      ${
        panel === null
          ? nothing
          : html`<header>
                <h2>${title}</h2>
                <div class="row tight still">
                  ${isBusy(view.state) ? helpButton() : nothing}
                  <button class="button quiet square" aria-label=${common().close} @click=${close}>
                    ${icon("close")}
                  </button>
                </div>
              </header>
              <div class="body">${BODIES[panel](view)}</div>`
      }
    </aside>`;
}

const ICONS = { transcript: "chat", settings: "settings", developer: "code" } as const;

/** Buttons that open and close the panels. */
export function panelButtons({ panel, actions }: CallView): TemplateResult[] {
  return (Object.keys(ICONS) as Panel[]).map((name) => {
    const label = callStrings().panels[name];
    return html`<button
      class="button quiet square"
      data-panel=${name}
      title=${label}
      aria-label=${label}
      aria-controls=${ID}
      aria-expanded=${panel === name}
      @click=${() => actions.show(panel === name ? null : name)}
    >
      ${icon(ICONS[name])}
    </button>`;
  });
}

function developer(view: CallView): TemplateResult {
  const t = callStrings();
  const group = { id: "developer", value: view.tab };
  const audio = isBusy(view.state) ? view.call.session?.audio : undefined;
  return html`${tabs({
    ...group,
    label: t.panels.developer,
    options: DEVELOPER_TABS.map((value) => ({ value, label: t.tabs[value] })),
    onChange: view.actions.selectTab,
  })}
  ${tabPanel(group, "metrics", metricsPanel(view))}
  ${tabPanel(group, "audio", html`<an-audio-mixer .audio=${audio}></an-audio-mixer>`)}
  ${tabPanel(group, "events", view.tab === "events" ? html`<an-event-list .log=${view.call.events}></an-event-list>` : html``)}`;
}
