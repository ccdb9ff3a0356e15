import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const source = (name: string): string =>
  fileURLToPath(new URL(`src/package/${name}.ts`, import.meta.url));

/** The package `antiphon-client`. The worklet and the weights of the speech network are files beside the scripts. */
export default defineConfig({
  base: "./",
  publicDir: false,
  build: {
    outDir: "package/dist",
    assetsDir: "assets",
    assetsInlineLimit: 0,
    target: ["es2022", "chrome123", "firefox121", "safari17.5"],
    modulePreload: false,
    license: { fileName: "licenses.md" },
    rolldownOptions: {
      input: { index: source("index"), "call-element": source("call-element") },
      preserveEntrySignatures: "strict",
      output: { entryFileNames: "[name].js", chunkFileNames: "assets/[name]-[hash].js" },
    },
  },
});
