import { html } from "lit";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { homeStrings } from "./strings.ts";

mount({ title: () => homeStrings().title, content: () => html`<an-home-page></an-home-page>` });
