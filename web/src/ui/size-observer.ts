/**
 * Calls `changed` in the frame after the size of an observed element has changed. A size that changes while the
 * browser reports sizes is an error of the page.
 */
export function sizeObserver(changed: (entry: ResizeObserverEntry) => void): ResizeObserver {
  return new ResizeObserver((entries) => {
    const newest = entries.at(-1);
    if (newest) requestAnimationFrame(() => changed(newest));
  });
}
