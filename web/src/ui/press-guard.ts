const CONTROLS = "a[href], button, input, label, select, summary, textarea, [role=tab]";
/** A tap that is earlier cannot be an answer to a control that has just appeared. */
const FRESH_MS = 400;
/** Of the second tap of a double tap, which is as far from the first one as fingers miss. */
const DOUBLE_TAP_MS = 600;
const DOUBLE_TAP_PX = 96;
const VISIBLE = 0.5; // opacity

interface Press {
  /** The control under the pointer when it went down. Null if there was none that the user could see. */
  readonly control: Element | null;
  readonly under: Element | null;
  readonly x: number;
  readonly y: number;
  readonly at: number;
}

/**
 * A press acts on a control only if the user could see it there when the pointer went down. Otherwise
 * the tap that shows hidden controls would also press one of them, and a control that appears under a
 * finger would be pressed by a tap that was meant for what was there before.
 *
 * With fingers and pens a control is not pressed in the first moments after it appeared, nor by the
 * second tap of a double tap whose first tap replaced what was under it. Keys, and clicks without a
 * pointer, always act.
 */
export class PressGuard {
  readonly #document: Document;
  readonly #added = new WeakMap<Node, number>();
  #press: Press | null = null;

  /** `document`: also of a second window. */
  constructor(document: Document) {
    this.#document = document;
    document.addEventListener("pointerdown", (event) => this.#onDown(event), { capture: true });
    document.addEventListener("click", (event) => this.#onClick(event), { capture: true });
    new MutationObserver((records) => this.#remember(records)).observe(document.body, {
      childList: true,
      subtree: true,
    });
  }

  #remember(records: readonly MutationRecord[]): void {
    const now = performance.now();
    for (const { addedNodes } of records) for (const node of addedNodes) this.#added.set(node, now);
  }

  #onDown(event: PointerEvent): void {
    const { clientX: x, clientY: y } = event;
    const at = performance.now();
    const under = controlOf(event.target);
    const isTap = event.pointerType !== "mouse";
    const isMissed =
      under === null ||
      opacityOf(under) < VISIBLE ||
      (isTap && (!event.isPrimary || this.#isFresh(under, at) || this.#hasChanged(x, y, at)));
    this.#press = { control: isMissed ? null : under, under, x, y, at };
  }

  #onClick(event: MouseEvent): void {
    if (event.detail === 0 || this.#press === null) return; // of a key or of code
    const control = controlOf(event.target);
    if (control === null || isSame(this.#press.control, control)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  #isFresh(control: Element, now: number): boolean {
    for (let node: Node | null = control; node !== null; node = node.parentNode)
      if (now - (this.#added.get(node) ?? Number.NEGATIVE_INFINITY) < FRESH_MS) return true;
    return false;
  }

  /** Whether the tap before was close, and something else is under it now. */
  #hasChanged(x: number, y: number, now: number): boolean {
    const before = this.#press;
    if (before === null || now - before.at > DOUBLE_TAP_MS) return false;
    if (Math.hypot(x - before.x, y - before.y) > DOUBLE_TAP_PX) return false;
    return controlOf(this.#document.elementFromPoint(before.x, before.y)) !== before.under;
  }
}

/** A field inside its label may be invisible: the label is what the user sees. */
function controlOf(target: EventTarget | null): Element | null {
  const control = (target as Partial<Element> | null)?.closest?.(CONTROLS) ?? null;
  return control?.closest("label") ?? control;
}

/** Of what is around a field: fields that draw nothing themselves lie over what the user sees. */
function opacityOf(element: Element): number {
  const { parentElement, ownerDocument } = element;
  const style = ownerDocument.defaultView?.getComputedStyle(element);
  const own = element.matches("input") ? 1 : Number(style?.opacity ?? 1);
  return own * (parentElement === null ? 1 : opacityOf(parentElement));
}

/** The browser clicks a field after its label. */
function isSame(pressed: Element | null, clicked: Element): boolean {
  return pressed === clicked || (pressed as HTMLLabelElement | null)?.control === clicked;
}
