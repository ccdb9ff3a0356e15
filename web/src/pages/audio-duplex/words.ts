import { texts } from "../../i18n/texts.ts";

/** What this page says beyond the words that all pages share. */
export const words = texts({ title: "Voice call" }, { title: "语音通话" });
