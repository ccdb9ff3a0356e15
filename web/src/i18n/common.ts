import { en } from "./en.ts";
import { defineStrings } from "./language.ts";
import { zh } from "./zh.ts";

/** Texts that all pages share. */
export const common = defineStrings(en, zh);
