/**
 * Translators of browsers replace text nodes by `<font>` elements with the translation. Lit keeps
 * references to the text nodes, or reaches them through their neighbours: it would change nodes that
 * the page no longer shows, or throw. So each update runs on the original nodes. Afterwards the
 * translations return to what the update did not change; the translator handles the rest.
 */

/** What a translator did to the children of each element, in order. */
const replaced = new Map<Node, MutationRecord[]>();

let isUpdating = false;

const observer = globalThis.MutationObserver && new MutationObserver(note);

/** Call it once, with the part of the document that holds all elements. */
export function watchTranslators(root: Node): void {
  observer?.observe(root, { childList: true, characterData: true, subtree: true });
}

/** Runs an update of the elements in `part`. */
export function onOwnNodes(part: Node, update: () => void): void {
  if (isUpdating) {
    update();
    return;
  }
  note(observer?.takeRecords() ?? []);
  const restored = [...replaced].filter(([target]) => part.contains(target));
  for (const [, records] of restored) for (const one of records.toReversed()) undo(one);
  observer?.takeRecords();
  isUpdating = true;
  try {
    update();
  } finally {
    isUpdating = false;
    const changed = new Set((observer?.takeRecords() ?? []).map(parentOf));
    for (const [target, records] of restored) {
      if (changed.has(target)) replaced.delete(target);
      else records.forEach(redo);
    }
    observer?.takeRecords();
  }
}

/** The element whose children or texts have changed. */
function parentOf({ type, target }: MutationRecord): Node | null {
  return type === "characterData" ? target.parentNode : target;
}

/** Between updates only translators replace texts by other elements. */
function note(records: readonly MutationRecord[]): void {
  const translated = new Set(records.filter(hasFont).map(({ target }) => target));
  for (const one of records) {
    const { target } = one;
    if (one.type !== "childList" || !(translated.has(target) || replaced.has(target))) continue;
    if (isInFont(target) || ![...one.addedNodes, ...one.removedNodes].every(isText)) continue;
    const list = replaced.get(target) ?? [];
    list.push(one);
    replaced.set(target, list);
  }
  for (const [target, list] of replaced) if (!isTranslated(target, list)) replaced.delete(target);
}

/** False if all translations are gone, as after the user has chosen to see the original. */
function isTranslated(target: Node, records: readonly MutationRecord[]): boolean {
  const added = records.flatMap(({ addedNodes }) => [...addedNodes]);
  return target.isConnected && added.some((node) => isFont(node) && node.parentNode === target);
}

function hasFont({ addedNodes }: MutationRecord): boolean {
  return [...addedNodes].some(isFont);
}

function isFont(node: Node): boolean {
  return node.nodeName === "FONT";
}

function isText(node: Node): boolean {
  return node.nodeType === Node.TEXT_NODE || isFont(node);
}

function isInFont(node: Node): boolean {
  return node instanceof Element && node.closest("font") !== null;
}

function undo(record: MutationRecord): void {
  swap(record, record.addedNodes, record.removedNodes);
}

function redo(record: MutationRecord): void {
  swap(record, record.removedNodes, record.addedNodes);
}

function swap(
  { target, previousSibling, nextSibling }: MutationRecord,
  old: NodeList,
  fresh: NodeList,
): void {
  for (const node of old) if (node.parentNode === target) target.removeChild(node);
  const after = previousSibling?.parentNode === target ? previousSibling.nextSibling : null;
  const place = nextSibling?.parentNode === target ? nextSibling : after;
  for (const node of fresh) target.insertBefore(node, place);
}
