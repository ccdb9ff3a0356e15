import { html } from "lit";
import { adoptPreset } from "../../components/instructions-panel.ts";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { halfDuplexSettings } from "./panel.ts";
import { halfDuplexStrings } from "./strings.ts";

adoptPreset(halfDuplexSettings);
mount({
  help: async () => (await import("../help.ts")).pageHelp,
  title: () => halfDuplexStrings().title,
  content: () => html`<an-half-duplex-page></an-half-duplex-page>`,
});
