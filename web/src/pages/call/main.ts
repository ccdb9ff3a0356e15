import "../../call/call-page.ts";
import { html } from "lit";
import { kindOf } from "../../call/controls.ts";
import { callStrings } from "../../call/strings.ts";
import { address } from "../../shell/menu.ts";
import { mount } from "../../shell/shell.ts";

mount({
  help: async () => (await import("../help.ts")).pageHelp,
  title: () => (address.value === "/" ? "" : callStrings().title[kindOf(address.value)]),
  content: () => html`<an-call-page></an-call-page>`,
});
