import { html } from "lit";
import { words } from "../../duplex/words.ts";
import { mount } from "../../shell/shell.ts";
import "./page.ts";

mount({ title: () => words().title.omni, content: () => html`<an-omni-page></an-omni-page>` });
