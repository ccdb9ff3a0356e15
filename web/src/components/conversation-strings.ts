import { defineStrings } from "../i18n/language.ts";

export const ownConversationsStrings = defineStrings(
  {
    title: "Your conversations",
    intro:
      "Only this browser has this list. It keeps chats and texts for 30 days, and the audio of calls for a day or until you save it.",
    none: "No conversations yet.",
    noDatabase: "This browser keeps no list, as in a private window.",
    kinds: {
      chat: "Chat",
      half_duplex_audio: "Take turns",
      audio_duplex: "Voice call",
      omni_duplex: "Video call",
      turns: "OpenAI Realtime",
    },
    here: "On this device",
    server: "On the server",
    textOnly: "Text only",
    noWords: "Nothing was said",
    remove: (what: string) => `Delete from this device: ${what}`,
    removed: "Deleted from this device",
    removedServer: "The recording on the server stays.",
  },
  {
    title: "您的对话",
    intro: "此列表只在这个浏览器中。聊天和文字保留 30 天，通话的音频保留一天或直到您保存。",
    none: "还没有对话。",
    noDatabase: "此浏览器不保留列表，例如在无痕窗口中。",
    kinds: {
      chat: "聊天",
      half_duplex_audio: "轮流说话",
      audio_duplex: "语音通话",
      omni_duplex: "视频通话",
      turns: "OpenAI Realtime",
    },
    here: "在此设备上",
    server: "在服务器上",
    textOnly: "只有文字",
    noWords: "没有人说话",
    remove: (what) => `从此设备删除：${what}`,
    removed: "已从此设备删除",
    removedServer: "服务器上的录制仍然保留。",
  },
);
