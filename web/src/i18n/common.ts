import { en } from "./en.ts";
import { defineStrings } from "./strings.ts";
import { zh } from "./zh.ts";

/** Words that every page uses. */
export const common = defineStrings(en, zh);
