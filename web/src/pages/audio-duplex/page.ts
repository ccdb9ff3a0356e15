import { customElement } from "lit/decorators.js";
import { CallPage } from "../../call/call-page.ts";

@customElement("an-audio-duplex-page")
export class AudioDuplexPage extends CallPage {
  constructor() {
    super("audio");
  }
}
