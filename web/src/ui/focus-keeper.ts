/** Elements that the keyboard reaches. A text field would open the keyboard of a touch screen. */
const CONTROLS = matchMedia("(pointer: coarse)").matches
  ? "a[href], button, input:is([type=checkbox], [type=radio], [type=range]), select, summary"
  : "a[href], button, input, select, textarea, summary, [tabindex='0']";
/** They lie over the page. When one disappears, the focus goes back to where it was before. */
const OVERLAYS = "dialog, [popover]";
const REMEMBERED = 8;
const OBSERVED = ["disabled", "hidden", "inert", "open"];

/** A focused element and its ancestors, which a removed element no longer has. */
interface Focused {
  readonly element: Element;
  readonly ancestors: readonly Element[];
}

/**
 * Moves the focus when the focused element disappears or is disabled, such as a button that a
 * press replaces. Otherwise the focus would return to the start of the page.
 *
 * The focus moves to the element that the attribute `data-focus-next` of the closest container
 * selects. Without one, it moves to the next control, or to the previous one at the end.
 */
export class FocusKeeper {
  readonly #document: Document;
  readonly #changes = new MutationObserver((records) => this.#check(records));
  /** The newest one is last. */
  #history: Focused[] = [];
  /** The user pressed the pointer outside of all controls. */
  #isLeft = false;

  /** `document`: also of a second window. */
  constructor(document: Document) {
    this.#document = document;
    document.addEventListener("focusin", ({ target }) => this.#remember(target as Element));
    document.addEventListener("pointerdown", () => {
      this.#isLeft = true; // until a control gets the focus
    });
    this.#changes.observe(document.body, {
      childList: true,
      subtree: true,
      attributeFilter: OBSERVED,
    });
  }

  #remember(element: Element): void {
    const others = this.#history.filter((one) => one.element !== element);
    this.#history = [...others, { element, ancestors: ancestorsOf(element) }].slice(-REMEMBERED);
    this.#isLeft = false;
  }

  #check(records: readonly MutationRecord[]): void {
    const last = this.#history.at(-1);
    if (last === undefined || this.#isLeft) return;
    const removal = removalOf(last, records);
    if (removal === undefined && isUsable(last.element)) return;
    const before = last.element.isConnected ? last.element : (removal?.previousSibling ?? null);
    // Elements inside the page may not be rendered yet, or get the focus themselves.
    this.#document.defaultView?.requestAnimationFrame(() => {
      const { activeElement, body } = this.#document;
      if (this.#history.at(-1) !== last || this.#isLeft) return;
      if (activeElement !== null && activeElement !== body && isUsable(activeElement)) return;
      successorOf(last, before, this.#history)?.focus({ preventScroll: true });
    });
  }
}

function ancestorsOf(element: Element): readonly Element[] {
  const parent = element.parentElement;
  return parent === null ? [] : [parent, ...ancestorsOf(parent)];
}

function isUsable(element: Element): boolean {
  const isShown = element.isConnected && element.checkVisibility({ visibilityProperty: true });
  return isShown && element.closest(":disabled, [inert]") === null;
}

/** Finds the record with the place that the element had in the page. */
function removalOf(
  { element, ancestors }: Focused,
  records: readonly MutationRecord[],
): MutationRecord | undefined {
  const parts: readonly Node[] = [element, ...ancestors];
  return records.find(
    ({ target, removedNodes }) =>
      target.isConnected && [...removedNodes].some((node) => parts.includes(node)),
  );
}

function successorOf(
  { element, ancestors }: Focused,
  before: Node | null,
  history: readonly Focused[],
): HTMLElement | undefined {
  if (isUsable(element)) return element as HTMLElement; // it moved inside the page
  const overlay = ancestors.find((one) => one.matches(OVERLAYS));
  if (overlay !== undefined && controlsIn(overlay, CONTROLS).length === 0) {
    const earlier = history.findLast(
      (one) => !one.ancestors.includes(overlay) && isUsable(one.element),
    );
    if (earlier !== undefined) return earlier.element as HTMLElement;
  }
  const left = ancestors.filter((one) => one.isConnected);
  const container = left[0]?.closest("[data-focus-next]");
  const named = container && controlsIn(container, container.getAttribute("data-focus-next") ?? "");
  return named?.[0] ?? closestControl(left, before);
}

/** The control after `before`, or the last one before it, in the closest ancestor that has one. */
function closestControl(
  ancestors: readonly Element[],
  before: Node | null,
): HTMLElement | undefined {
  let place = before?.isConnected ? before : null;
  for (const ancestor of ancestors) {
    const controls = controlsIn(ancestor, CONTROLS);
    const next = controls.find((one) => place === null || isAfter(one, place));
    const found = next ?? controls.at(-1);
    if (found !== undefined) return found;
    place = ancestor;
  }
  return undefined;
}

function isAfter(element: Element, place: Node): boolean {
  return (place.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;
}

function controlsIn(container: Element, selector: string): HTMLElement[] {
  return [...container.querySelectorAll<HTMLElement>(selector)].filter(isUsable);
}
