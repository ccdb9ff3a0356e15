import { html, type TemplateResult } from "lit";
import { customElement } from "lit/decorators.js";
import { Element } from "../../ui/element.ts";
import { words } from "./words.ts";

@customElement("an-turnbased-page")
export class TurnbasedPage extends Element {
  protected override render(): TemplateResult {
    return html`<div class="page-head"><h1>${words().title}</h1></div>`;
  }
}
