// After `vite build`: writes compressed copies beside every file that gets smaller, which the edge
// sends as they are, and prints what a first visit to each page loads. Fails above the limit.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";

const LIMIT_KB = 150;
const TEXT = /\.(html|js|css|svg)$/;
const COMPRESSED = /\.(html|js|css|svg|f16|md)$/;
const COPIES = /\.(br|gz)$/;
const SCRIPT = /\.js$/;
/** Fonts that browsers load only for letters beyond Western European ones. */
const RARE = /-latin-ext-/;

const standard = fileURLToPath(new URL("../../edge/pages", import.meta.url));
const folder = `${process.argv[2] ?? standard}/`;
const listed = readdirSync(folder, { recursive: true });
const files = new Map(listed.filter(isOurs).map((name) => [name, compress(name)]));

function isOurs(name) {
  return statSync(folder + name).isFile() && !COPIES.test(name);
}

/** Size in bytes as it is sent to browsers that accept Brotli. */
function compress(name) {
  const body = readFileSync(folder + name);
  if (!COMPRESSED.test(name)) return body.length;
  const small = brotliCompressSync(body); // the default is the best quality
  writeFileSync(`${folder}${name}.br`, small);
  writeFileSync(`${folder}${name}.gz`, gzipSync(body, { level: 9 }));
  return small.length;
}

/**
 * All files that a page loads, followed through references. A script loads only its static
 * imports.
 */
function firstVisit(page) {
  const needed = new Set([page]);
  for (const name of needed) {
    if (!TEXT.test(name)) continue;
    const text = readFileSync(folder + name, "utf8");
    for (const other of files.keys()) if (names(name, text, other)) needed.add(other);
  }
  return needed;
}

function names(name, text, other) {
  const last = other.split("/").at(-1);
  if (RARE.test(other) || other.endsWith(".html") || !text.includes(last)) return false;
  const imported = new RegExp(`(from|import) *["'][^"']*${last.replaceAll(".", "\\.")}["']`);
  return !SCRIPT.test(name) || imported.test(text);
}

const pages = [...files.keys()].filter((name) => name.endsWith(".html"));
const weights = pages.map((page) => {
  const bytes = [...firstVisit(page)].reduce((sum, name) => sum + files.get(name), 0);
  return { page, kB: bytes / 1000 };
});
for (const { page, kB } of weights) {
  process.stdout.write(`${page.padEnd(22)} ${kB.toFixed(1).padStart(6)} kB on a first visit\n`);
}
if (weights.some(({ kB }) => kB > LIMIT_KB)) {
  process.stderr.write(`A page is heavier than ${LIMIT_KB} kB.\n`);
  process.exit(1);
}
