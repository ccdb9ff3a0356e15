import { html } from "lit";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { adminStrings } from "./strings.ts";

mount({
  help: async () => (await import("../help.ts")).pageHelp,
  title: () => adminStrings().title,
  content: () => html`<an-admin-page></an-admin-page>`,
});
