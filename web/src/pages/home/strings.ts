import { defineStrings } from "../../i18n/strings.ts";

export const homeStrings = defineStrings(
  {
    title: "",
    headline: "Talk to it. It listens while it speaks.",
    lead: "Interrupt, think aloud, show it what you see. MiniCPM-o 4.5 hears you all the time, so a conversation flows as it does between people.",
    start: "Start a voice call",
    check: "Check your microphone",

    modes: "Ways to talk",
    about: {
      audio_duplex: "Speak freely and interrupt at any time.",
      omni: "Talk while it sees what your camera sees.",
      half_duplex_audio: "Take turns: it answers when you have finished.",
      turnbased: "Write, attach sound, pictures or video, read and hear the answer.",
    },
    noModes: "Nothing is switched on",
    noModesHint: "The operator of this server has switched all pages off.",

    service: "This server",
    free: (places: number) => (places === 1 ? "1 place is free" : `${places} places are free`),
    full: (waiting: number) =>
      waiting === 0 ? "All places are taken" : `All places are taken, ${waiting} waiting`,
    loading: "The model is being loaded",
    down: "No model is running",
    unknown: "State unknown",

    facts: {
      interrupt: "It can be interrupted",
      interruptText: "Start speaking and it falls silent. No button, no wake word.",
      resume: "It survives a bad connection",
      resumeText: "When your network drops, the conversation waits for you and goes on.",
      private: "You decide who hears it",
      privateText:
        "A recording is opened by its link and by nothing else. Share it or keep it to yourself.",
    },

    footer: "Antiphon: a song in two answering voices.",
    api: "API",
    admin: "Admin",
  },
  {
    title: "",
    headline: "边听边说，自然对话。",
    lead: "随时打断，自言自语，把眼前的东西给它看。MiniCPM-o 4.5 一直在听，对话就像人与人之间一样流畅。",
    start: "开始语音通话",
    check: "检查麦克风",

    modes: "对话方式",
    about: {
      audio_duplex: "自由地说话，随时打断。",
      omni: "边说边看：它能看到您的摄像头画面。",
      half_duplex_audio: "一人一句：您说完，它再回答。",
      turnbased: "输入文字，附上声音、图片或视频，阅读并聆听回答。",
    },
    noModes: "没有可用的页面",
    noModesHint: "管理员已停用所有页面。",

    service: "本服务器",
    free: (places) => `有 ${places} 个空位`,
    full: (waiting) => (waiting === 0 ? "暂无空位" : `暂无空位，${waiting} 人在排队`),
    loading: "模型正在加载",
    down: "没有模型在运行",
    unknown: "状态未知",

    facts: {
      interrupt: "可以打断",
      interruptText: "您一开口，它就安静下来。无需按键，也无需唤醒词。",
      resume: "网络不好也不怕",
      resumeText: "网络中断时，对话会等您回来再继续。",
      private: "谁能听到，由您决定",
      privateText: "录音只能通过它的链接打开。分享还是自己保留，都由您决定。",
    },

    footer: "Antiphon（应答歌）：两个声音彼此应和。",
    api: "API",
    admin: "管理",
  },
);
