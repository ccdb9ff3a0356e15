import { html } from "lit";
import { isShareToken } from "../../api/shares.ts";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { viewerStrings } from "./strings.ts";

mount({
  help: async () => (await import("../help.ts")).pageHelp,
  bare: isShareToken(location.pathname.split("/")[2] ?? ""),
  title: () => viewerStrings().title,
  content: () => html`<an-viewer-page></an-viewer-page>`,
});
