import { html } from "lit";
import { words } from "../../duplex/words.ts";
import { mount } from "../../shell/shell.ts";
import "./page.ts";

mount({
  title: () => words().title.audio,
  content: () => html`<an-audio-duplex-page></an-audio-duplex-page>`,
});
