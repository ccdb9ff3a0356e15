import { html } from "lit";
import { adoptPreset } from "../../components/instructions-panel.ts";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { chatSettings } from "./panel.ts";
import { chatStrings } from "./strings.ts";

adoptPreset(chatSettings);
mount({
  help: async () => (await import("../help.ts")).pageHelp,
  title: () => chatStrings().title,
  content: () => html`<an-chat-page></an-chat-page>`,
});
