import { html } from "lit";
import { siteUrl } from "../../api/site.ts";
import { common } from "../../i18n/common.ts";
import { defineStrings } from "../../i18n/language.ts";
import { mount } from "../../shell/shell.ts";
import { icon } from "../../ui/icon.ts";

const strings = defineStrings(
  {
    title: "Page not found",
    remedy: "There is no page at this address. Check the address, or go to the home page.",
  },
  { title: "找不到页面", remedy: "此服务器没有这个地址的页面。请检查地址，或前往首页。" },
);

/** The page that the edge sends to a browser for an unknown address. It needs no key. */
mount({
  title: () => strings().title,
  bare: true,
  content: () => html`<div class="card empty">
    ${icon("search")}
    <h1>${strings().title}</h1>
    <p>${strings().remedy}</p>
    <a class="button" href=${siteUrl("/")}>${common().nav.home}</a>
  </div>`,
});
