import { html } from "lit";
import { mount } from "../../shell/shell.ts";
import "./page.ts";
import { halfDuplexStrings } from "./strings.ts";

mount({
  title: () => halfDuplexStrings().title,
  content: () => html`<an-half-duplex-page></an-half-duplex-page>`,
});
