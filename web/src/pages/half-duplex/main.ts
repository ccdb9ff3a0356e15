import { html } from "lit";
import { adoptPreset } from "../../shell/preset-link.ts";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { halfDuplexSettings } from "./settings.ts";
import { halfDuplexStrings } from "./strings.ts";

adoptPreset(halfDuplexSettings);
mount({
  title: () => halfDuplexStrings().title,
  content: () => html`<an-half-duplex-page></an-half-duplex-page>`,
});
