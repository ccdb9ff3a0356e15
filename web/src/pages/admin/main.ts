import { html } from "lit";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { adminStrings } from "./strings.ts";

mount({ title: () => adminStrings().title, content: () => html`<an-admin-page></an-admin-page>` });
