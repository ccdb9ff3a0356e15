import { html } from "lit";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { words } from "./words.ts";

mount({ title: () => words().title, content: () => html`<an-omni-page></an-omni-page>` });
