import { defineStrings } from "../../i18n/strings.ts";

export const browserRecordingStrings = defineStrings(
  {
    title: "The browser's recording",
    why: "Made where the conversation was held: as it was heard there.",
    play: "Play the browser's recording",
    download: "Download the browser's recording",
    broken: "Your browser cannot play this file. Download it and open it with another player.",
  },
  {
    title: "浏览器的录制",
    why: "在对话现场录制，与当时听到的一致。",
    play: "播放浏览器的录制",
    download: "下载浏览器的录制",
    broken: "浏览器无法播放此文件。请下载后用其他播放器打开。",
  },
);
