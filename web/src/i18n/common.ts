import { en } from "./en.ts";
import { texts } from "./texts.ts";
import { zh } from "./zh.ts";

/** Words that every page uses. */
export const common = texts(en, zh);
