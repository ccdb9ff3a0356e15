import { html } from "lit";
import { customElement } from "lit/decorators.js";
import { CallPage } from "../../call/call-page.ts";
import { callStrings } from "../../call/strings.ts";
import { mount } from "../../shell/shell.ts";

@customElement("an-audio-duplex-page")
export class AudioDuplexPage extends CallPage {
  constructor() {
    super("audio");
  }
}

mount({
  title: () => callStrings().title.audio,
  content: () => html`<an-audio-duplex-page></an-audio-duplex-page>`,
});
