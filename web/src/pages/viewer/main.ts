import { html } from "lit";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { words } from "./words.ts";

mount({
  bare: true,
  title: () => words().title,
  content: () => html`<an-viewer-page></an-viewer-page>`,
});
