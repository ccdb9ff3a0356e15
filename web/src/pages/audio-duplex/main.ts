import { html } from "lit";
import { callStrings } from "../../call/strings.ts";
import { mount } from "../../shell/shell.ts";
import "./page.ts";

mount({
  title: () => callStrings().title.audio,
  content: () => html`<an-audio-duplex-page></an-audio-duplex-page>`,
});
