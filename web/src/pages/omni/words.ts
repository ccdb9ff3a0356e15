import { texts } from "../../i18n/texts.ts";

/** What this page says beyond the words that all pages share. */
export const words = texts({ title: "Video call" }, { title: "视频通话" });
