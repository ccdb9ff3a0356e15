import { html } from "lit";
import { siteUrl } from "../../api/site.ts";
import { common } from "../../i18n/common.ts";
import { mount } from "../../shell/shell.ts";
import { icon } from "../../ui/icon.ts";

/** The page that the edge sends instead of a disabled page. */
mount({
  title: () => common().errors.pageOff,
  content: () => html`<div class="card empty">
    ${icon("pause")}
    <h1>${common().errors.pageOff}</h1>
    <p>${common().errors.pageOffRemedy}</p>
    <a class="button" href=${siteUrl("/")}>${common().nav.home}</a>
  </div>`,
});
