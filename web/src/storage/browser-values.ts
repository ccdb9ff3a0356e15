/**
 * Values in the storage of the browser. It may be blocked, absent or full: then the page has them
 * until it closes. Only this folder uses the storage of the browser, and a test checks it.
 */
export class BrowserValues {
  readonly #area: () => Storage;
  /** What the browser did not take. A deleted value is null. */
  readonly #unsaved = new Map<string, string | null>();

  constructor(area: () => Storage) {
    this.#area = area;
  }

  /** Whether the browser has all values. If not, they are lost when the page closes. */
  get areKept(): boolean {
    return this.#unsaved.size === 0;
  }

  get(key: string): string | null {
    const unsaved = this.#unsaved.get(key);
    if (unsaved !== undefined) return unsaved;
    try {
      return this.#area().getItem(key);
    } catch {
      return null; // blocked or absent, which throws errors of many kinds
    }
  }

  set(key: string, value: string): void {
    this.#write(key, value, (area) => area.setItem(key, value));
  }

  delete(key: string): void {
    this.#write(key, null, (area) => area.removeItem(key));
  }

  #write(key: string, value: string | null, write: (area: Storage) => void): void {
    try {
      write(this.#area());
      this.#unsaved.delete(key);
    } catch {
      this.#unsaved.set(key, value); // blocked, absent or full
    }
  }
}

/** Of all pages, and kept when the browser closes. */
export const localValues = new BrowserValues(() => localStorage);

/** Of this tab. */
export const tabValues = new BrowserValues(() => sessionStorage);
