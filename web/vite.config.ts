import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type HtmlTagDescriptor, type Plugin } from "vite";

const root = fileURLToPath(new URL(".", import.meta.url));
const pages = readdirSync(root).filter((name) => name.endsWith(".html"));
const edge = process.env["ANTIPHON_EDGE"] ?? "http://127.0.0.1:8006";

/**
 * Each script is `async`, so that the browser runs it in a task of its own. Otherwise it runs all of
 * them in one task, which is long on a phone. `blocking` hides the page until they have run, which
 * avoids a flash of an empty or wrongly themed page.
 */
const scriptTags: Plugin = {
  name: "script-tags",
  transformIndexHtml: {
    order: "post",
    handler: (html) =>
      html
        .replaceAll(
          /<link rel="modulepreload"([^>]*) href="([^"]+)">/g,
          '<script type="module"$1 src="$2"></script>',
        )
        .replaceAll('<script type="module"', '<script type="module" async blocking="render"'),
  },
};

/**
 * Declares the order of the cascade layers at the start of every style sheet. The browser takes the
 * order from the sheet that it loads first, and the bundler decides which one that is.
 */
const layerOrder: Plugin = {
  name: "layer-order",
  enforce: "pre",
  transform: (code, id) =>
    id.startsWith(`${root}src/`) && id.endsWith(".css")
      ? `@layer tokens, base, ui, components, pages;\n${code}`
      : null,
};

/** For browsers that cannot even read the scripts. The style sheet hides it while the page starts. */
const notStarted: HtmlTagDescriptor = {
  tag: "p",
  attrs: { class: "not-started" },
  children:
    "This page could not start. Reload it. If that does not help, the browser is too old: use Chrome or Edge 123, " +
    "Firefox 121, Safari 17.5, or a newer version.",
  injectTo: "body",
};

/** Tags that install the pages as an app. */
const headTags: Plugin = {
  name: "head-tags",
  transformIndexHtml: (_html, { server, path }) => {
    const home = server ? "/" : "./";
    return [
      { tag: "link", attrs: { rel: "manifest", href: `${home}manifest.webmanifest` } },
      { tag: "link", attrs: { rel: "apple-touch-icon", href: `${home}apple-touch-icon.png` } },
      ...(path.endsWith("/docs.html") ? [] : [notStarted]),
    ];
  },
};

/** In development, `/omni` answers with `omni.html`, as the edge does. */
const pagePaths: Plugin = {
  name: "page-paths",
  configureServer(server) {
    server.middlewares.use((request, _response, next) => {
      const path = (request.url ?? "/").split("?")[0] ?? "/";
      if (path.startsWith("/s/")) request.url = "/session-viewer.html";
      else if (pages.includes(`${path.slice(1)}.html`)) request.url = `${path}.html`;
      next();
    });
  },
};

const EVERY_PAGE =
  /node_modules\/(@lit|lit|lit-element|lit-html|lucide|valibot)\/|src\/(shell|i18n|state)\/|src\/ui\/(base-element|controls|dialog|icon|page-build|toasts|translated-nodes)\.ts|src\/api\/(http|catalog|answers|site)\.ts|src\/storage\/browser-values\.ts/;

/** In one file, because every file costs a request with headers of almost a kilobyte. */
function isInEveryPage(id: string): boolean {
  return EVERY_PAGE.test(id);
}

export default defineConfig({
  root,
  base: "./", // the edge adds `../` for the depth of a page's path
  appType: "mpa",
  plugins: [layerOrder, headTags, pagePaths, scriptTags],
  build: {
    outDir: "../edge/pages",
    emptyOutDir: true,
    assetsDir: "static",
    assetsInlineLimit: 0,
    target: ["es2022", "chrome123", "firefox121", "safari17.5"],
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    rolldownOptions: {
      input: pages.map((name) => `${root}${name}`),
      checks: { bundlerTimings: false },
      output: { codeSplitting: { groups: [{ name: "shell", test: isInEveryPage }] } },
    },
    chunkSizeWarningLimit: 1600, // the viewer of the API's description; no other page loads it
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/ws", "/v1", "/health", "/status", "/workers", "/cache", "/openapi.json"].map(
        (path) => [path, { target: edge, ws: true, changeOrigin: false }],
      ),
    ),
  },
});
