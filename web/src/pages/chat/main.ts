import { html } from "lit";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { chatStrings } from "./strings.ts";

mount({ title: () => chatStrings().title, content: () => html`<an-chat-page></an-chat-page>` });
