import { html, type TemplateResult } from "lit";
import type { AppEntry, Capabilities } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import { capabilities } from "../shell/capabilities.ts";
import { menu, pageIcon, pageName } from "../shell/menu.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { aboutStrings } from "./about-strings.ts";
import "./about.css";

/** Below the call: all pages, what the product does, and links to the API and the admin page. */
export function aboutAntiphon(): TemplateResult {
  const t = aboutStrings();
  return html`<div class="about">
    <section class="stack" aria-labelledby="modes">
      <h2 id="modes">${t.modes}</h2>
      <ul role="list" class="modes">
        ${menu.value.map((app) => mode(app, capabilities.value))}
      </ul>
    </section>
    ${features()}
    <footer class="row apart small soft">
      <p>${t.footer}</p>
      <nav class="row" aria-label=${t.service}>
        <a href="/docs">${t.api}</a>
        <a href="/admin">${common().nav.admin}</a>
      </nav>
    </footer>
  </div>`;
}

function mode(app: AppEntry, able: Capabilities | null): TemplateResult {
  const blind =
    app.app_id === "omni" && able?.sees === false && able.model !== null && !able.simulated;
  const about: Readonly<Record<string, string>> = aboutStrings().about;
  return html`<li>
    <a class="card mode" href=${app.route}>
      <span class="sign">${icon(pageIcon(app))}</span>
      <span class="stack tight">
        <strong>${pageName(app)}</strong>
        <span class="small soft">${blind ? common().capabilities.blind(able.model) : (about[app.app_id] ?? app.name)}</span>
      </span>
      <span class="go">${icon("arrow")}</span>
    </a>
  </li>`;
}

function features(): TemplateResult {
  const t = aboutStrings().facts;
  const rows: readonly (readonly [IconName, string, string])[] = [
    ["voice", t.interrupt, t.interruptText],
    ["refresh", t.resume, t.resumeText],
    ["key", t.private, t.privateText],
  ];
  return html`<ul role="list" class="tiles features">
    ${rows.map(
      ([name, title, text]) => html`<li>
        ${icon(name)}
        <h3>${title}</h3>
        <p class="small soft">${text}</p>
      </li>`,
    )}
  </ul>`;
}
