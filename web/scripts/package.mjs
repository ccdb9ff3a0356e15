// Completes the package `antiphon-client` after its scripts and types are built, and packs it into FOLDER.
// The types of Valibot come along, so that the package has no dependencies.
import { execFileSync } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const web = fileURLToPath(new URL("..", import.meta.url));
const home = join(web, "package");
const types = join(home, "dist", "types");
const folder = resolve(process.argv[2] ?? home);

for (const name of ["LICENSE", "NOTICE.md"]) copyFileSync(join(web, "..", name), join(home, name));
for (const name of readdirSync(types, { recursive: true })) {
  if (name.endsWith(".d.ts")) complete(join(types, name));
}
copyFileSync(
  join(web, "node_modules", "valibot", "dist", "index.d.mts"),
  join(types, "valibot.d.ts"),
);
process.stdout.write(
  execFileSync("npm", ["pack", home, "--silent", "--pack-destination", folder], {
    encoding: "utf8",
  }),
);

/** Its imports name files that other programs find: no `.ts`, and no package. */
function complete(path) {
  const valibot = `./${relative(dirname(path), join(types, "valibot.js"))}`;
  const text = readFileSync(path, "utf8")
    .replaceAll(/(from |import\()"(\.[^"]+)\.ts"/g, '$1"$2.js"')
    .replaceAll(/(from |import\()"valibot"/g, `$1"${valibot}"`);
  writeFileSync(path, text);
}
