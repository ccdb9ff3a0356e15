import { customElement } from "lit/decorators.js";
import { CallPage } from "../../duplex/call-page.ts";

@customElement("an-audio-duplex-page")
export class AudioDuplexPage extends CallPage {
  constructor() {
    super("audio");
  }
}
