import { defineStrings } from "../../i18n/strings.ts";

/** The list of recordings. */
export const recordingsStrings = defineStrings(
  {
    from: "From",
    to: "To",
    searchHint: "Words said, prompt, or id",
    begun: "Begun",
    length: "Length",
    size: "Size",
    noRecordings: "No recordings",
    noRecordingsHint: "None fits, or none has been made yet.",
    incomplete: "Only the newest recordings were searched. Narrow the dates to search older ones.",
    open: "Open",
    download: (id: string) => `Download the recording of ${id}`,
    range: (first: number, last: number, total: number) => `${first} to ${last} of ${total}`,
    newer: "Newer",
    older: "Older",
    turnsOf: (turns: number) => (turns === 1 ? "1 turn" : `${turns} turns`),
  },
  {
    from: "从",
    to: "到",
    searchHint: "说过的话、提示词或编号",
    begun: "开始时间",
    length: "时长",
    size: "大小",
    noRecordings: "没有录音",
    noRecordingsHint: "没有符合条件的录音，或者还没有录音。",
    incomplete: "只搜索了最新的录音。缩小日期范围可以搜索更早的录音。",
    open: "打开",
    download: (id) => `下载 ${id} 的录音`,
    range: (first, last, total) => `第 ${first} 至 ${last} 条，共 ${total} 条`,
    newer: "较新",
    older: "较早",
    turnsOf: (turns) => `${turns} 轮`,
  },
);
