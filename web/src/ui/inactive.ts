import { type ElementPart, noChange } from "lit";
import { Directive, directive } from "lit/directive.js";

class Inactive extends Directive {
  #isInactive = false;
  #hasListener = false;

  render(_isInactive: boolean): unknown {
    return noChange;
  }

  override update({ element }: ElementPart, [isInactive]: [boolean]): unknown {
    this.#isInactive = isInactive;
    if (!this.#hasListener) {
      this.#hasListener = true;
      element.addEventListener("click", (event) => this.#filter(event), { capture: true });
    }
    if (isInactive) element.setAttribute("aria-disabled", "true");
    else element.removeAttribute("aria-disabled");
    return noChange;
  }

  #filter(event: Event): void {
    if (!this.#isInactive) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}

/**
 * A disabled button that keeps the focus: `<button ${inactive(isRunning)} @click=${…}>`. Presses
 * have no effect, and it submits no form.
 */
export const inactive = directive(Inactive);
