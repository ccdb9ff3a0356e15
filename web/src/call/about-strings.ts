import { defineStrings } from "../i18n/strings.ts";

export const aboutStrings = defineStrings(
  {
    modes: "Modes",
    about: {
      audio_duplex: "Talk naturally and interrupt at any time.",
      omni: "Talk about what your camera shows.",
      half_duplex_audio: "Take turns: the model answers when you finish.",
      turnbased: "Type, or attach audio, images or video. Get written and spoken answers.",
    },

    service: "Server status",
    free: (places: number) => (places === 1 ? "1 free slot" : `${places} free slots`),
    full: (waiting: number) =>
      waiting === 0 ? "No free slots" : `No free slots, ${waiting} waiting`,
    loading: "Loading the model",
    down: "No model is running",
    unknown: "Status unknown",
    simulated: "Simulated engine",

    facts: {
      interrupt: "Interrupt at any time",
      interruptText: "Start talking and the model stops. No button or wake word needed.",
      resume: "Reconnects automatically",
      resumeText: "If your connection drops, the session resumes when you are back online.",
      private: "Private recordings",
      privateText:
        "Only people with the link and the server's administrators can open a recording.",
    },

    footer: "Antiphon: a song in two answering voices.",
    api: "API",
  },
  {
    modes: "模式",
    about: {
      audio_duplex: "自然地说话，随时打断。",
      omni: "聊聊摄像头拍到的内容。",
      half_duplex_audio: "轮流说话：您说完后模型回答。",
      turnbased: "输入文字，或添加音频、图片或视频，获得文字和语音回答。",
    },

    service: "服务器状态",
    free: (places) => `${places} 个空闲名额`,
    full: (waiting) => (waiting === 0 ? "没有空闲名额" : `没有空闲名额，${waiting} 人在排队`),
    loading: "模型正在加载",
    down: "没有模型在运行",
    unknown: "状态未知",
    simulated: "模拟引擎",

    facts: {
      interrupt: "随时打断",
      interruptText: "您一开口，模型就会停下。无需按键，也无需唤醒词。",
      resume: "自动重连",
      resumeText: "网络中断后，恢复连接即可继续会话。",
      private: "录制保密",
      privateText: "只有拥有链接的人和服务器管理员可以打开录制。",
    },

    footer: "Antiphon（应答歌）：两个声音彼此应和。",
    api: "API",
  },
);
