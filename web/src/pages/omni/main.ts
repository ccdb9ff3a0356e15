import { html } from "lit";
import { callStrings } from "../../call/strings.ts";
import { mount } from "../../shell/shell.ts";
import "./page.ts";

mount({
  title: () => callStrings().title.omni,
  content: () => html`<an-omni-page></an-omni-page>`,
});
