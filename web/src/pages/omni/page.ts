import { customElement } from "lit/decorators.js";
import { CallPage } from "../../call/call-page.ts";

@customElement("an-omni-page")
export class OmniPage extends CallPage {
  constructor() {
    super("omni");
  }
}
