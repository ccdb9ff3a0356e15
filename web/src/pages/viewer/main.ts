import { html } from "lit";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { viewerStrings } from "./strings.ts";

mount({
  bare: true,
  title: () => viewerStrings().title,
  content: () => html`<an-viewer-page></an-viewer-page>`,
});
