/**
 * Where this server's pages are. A proxy may serve them below a path such as `/voice/`, which the
 * server does not know. It links each page to the manifest, which lies beside the home page.
 */
const manifest = globalThis.document?.querySelector<HTMLLinkElement>("link[rel=manifest]");

/** Path of the home page: `/` or `/voice/`. */
const home = manifest ? new URL(".", manifest.href).pathname : "/";

/** The address of a path of the server, such as `/omni`: `/voice/omni`. */
export function siteUrl(path: string): string {
  return home + path.slice(1);
}

/** The path of this page as the server names it. */
export function sitePath(): string {
  const { pathname } = location;
  return pathname.startsWith(home) ? pathname.slice(home.length - 1) : pathname;
}
