import { html } from "lit";
import { customElement } from "lit/decorators.js";
import { CallPage } from "../../call/call-page.ts";
import { callStrings } from "../../call/strings.ts";
import { mount } from "../../shell/shell.ts";

@customElement("an-omni-page")
export class OmniPage extends CallPage {
  constructor() {
    super("omni");
  }
}

mount({
  title: () => callStrings().title.omni,
  content: () => html`<an-omni-page></an-omni-page>`,
});
