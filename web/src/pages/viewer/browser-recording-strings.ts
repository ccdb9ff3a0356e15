import { defineStrings } from "../../i18n/language.ts";

export const browserRecordingStrings = defineStrings(
  {
    title: "Browser recording",
    why: "Recorded in the user's browser, as the user heard it.",
    play: "Play browser recording",
    download: "Download browser recording",
    broken: "Your browser cannot play this file. Download it and open it in another player.",
  },
  {
    title: "浏览器录制",
    why: "在用户的浏览器中录制，与用户听到的一致。",
    play: "播放浏览器录制",
    download: "下载浏览器录制",
    broken: "浏览器无法播放此文件。请下载后用其他播放器打开。",
  },
);
