import { html, nothing, type TemplateResult } from "lit";
import { siteUrl } from "../api/site.ts";
import { language } from "../i18n/language.ts";

/** Terms of a page with their meaning. */
type Rows = readonly (readonly [term: string, meaning: string])[];

interface HelpTopic {
  readonly about: readonly string[];
  readonly keys: Rows;
  /** The terms are texts of the page. */
  readonly states: Rows;
  /** What is stored, and where. */
  readonly kept: Rows;
}

interface HelpTexts {
  readonly headings: { readonly [Part in "keys" | "states" | "kept" | "more"]: string };
  readonly links: Rows;
  readonly topics: { readonly [Name in TopicName]: HelpTopic };
}

export type TopicName = "voice" | "video" | "chat" | "halfDuplex" | "viewer" | "admin";

const TOPICS: readonly (readonly [path: RegExp, name: TopicName])[] = [
  [/^\/turnbased/, "chat"],
  [/^\/half_duplex/, "halfDuplex"],
  [/^\/(omni|mobile)/, "video"],
  [/^\/s\//, "viewer"],
  [/^\/admin/, "admin"],
];

const RECORDED_EN =
  "A recording of both sides, unless you turn it off in the settings. People with its link and the server's administrators can open it.";

const CALL_EN: HelpTopic = {
  about: [
    "You talk to the model as on a telephone. It listens while it speaks, so you can interrupt it at any time.",
    "Choose a preset, press “Start call” and allow the microphone. Instructions, voice and devices are in the settings. “Save as preset” there keeps instructions and reference voices under a name.",
  ],
  keys: [
    ["Space", "Mute or unmute"],
    ["P", "Pause or resume"],
    ["L", "Interrupt the model"],
    ["Shift X", "End the call"],
  ],
  states: [
    ["Waiting in queue", "All slots of the server are in use. The call starts when one is free."],
    ["Listening", "The model waits for your words."],
    ["Hearing you", "The microphone picks up your voice."],
    ["Understood", "The model has your words. They appear below."],
    ["Thinking", "You have finished. The answer comes next."],
    ["Speaking", "The model answers. Start to talk to interrupt it."],
    ["Paused", "No audio is sent or played. The call ends when the pause is too long."],
  ],
  kept: [
    ["On the server", RECORDED_EN],
    [
      "In this browser",
      "The text for 30 days, the audio for a day or until you save it, your settings and your presets. See “Your conversations”.",
    ],
  ],
};

const RECORDED_ZH = "双方的录制，您可以在设置中关闭。有链接的人和服务器管理员可以打开。";

const CALL_ZH: HelpTopic = {
  about: [
    "像打电话一样与模型对话。模型说话时也在听，您可以随时打断。",
    "选择预设，点击“开始通话”并允许使用麦克风。系统提示、音色和设备在设置中，“存为预设”用一个名称保存系统提示和参考音色。",
  ],
  keys: [
    ["空格", "静音或取消静音"],
    ["P", "暂停或继续"],
    ["L", "打断模型"],
    ["Shift X", "结束通话"],
  ],
  states: [
    ["正在排队", "服务器的名额已用完。有空闲名额时通话开始。"],
    ["正在听", "模型在等您说话。"],
    ["正在听您说话", "麦克风收到了您的声音。"],
    ["已听懂", "模型已收到您的话，文字显示在下方。"],
    ["正在思考", "您已说完，接下来是回答。"],
    ["正在说话", "模型在回答。开口即可打断。"],
    ["已暂停", "不发送也不播放音频。暂停过久通话会结束。"],
  ],
  kept: [
    ["在服务器上", RECORDED_ZH],
    [
      "在此浏览器中",
      "文字保留 30 天，音频保留一天或直到您保存，还有您的设置和预设。见“您的对话”。",
    ],
  ],
};

const EN: HelpTexts = {
  headings: { keys: "Keys", states: "States", kept: "What is stored", more: "More" },
  links: [
    ["/docs", "HTTP and WebSocket API of this server"],
    ["/admin", "Sessions, workers and recordings (for administrators)"],
  ],
  topics: {
    voice: CALL_EN,
    video: {
      ...CALL_EN,
      about: [
        "A call in which the model also sees your camera, about once per second. You can interrupt it at any time.",
        ...CALL_EN.about.slice(1),
      ],
      keys: [...CALL_EN.keys, ["C", "Turn the camera on or off"]],
    },
    chat: {
      about: [
        "You write or record questions and attach images, audio or videos. The model answers in writing, and aloud if you like.",
        "Each question is sent with the whole chat. You can edit, repeat and delete messages.",
      ],
      keys: [
        ["Enter", "Send the message"],
        ["Shift Enter", "Start a new line"],
        ["Space", "Hold to record a question, outside of the text field"],
      ],
      states: [
        ["Thinking…", "The model has received the question."],
        ["Answering…", "Words arrive. The button with the square stops them."],
        ["stopped", "You stopped the answer, or left the page before it was complete."],
        ["not sent", "The model cannot use this part, so later questions do not contain it."],
      ],
      kept: [
        [
          "On the server",
          "A recording of each answer with its question, unless you turn it off in the settings.",
        ],
        [
          "In this browser",
          "Your chats with their files for 30 days, and your settings. See “Your conversations”.",
        ],
      ],
    },
    halfDuplex: {
      about: [
        "The model greets you. Then you take turns: you speak, and after a pause the model answers. The microphone is off while it speaks, so no headphones are needed.",
      ],
      keys: [],
      states: [
        ["Listening", "Speak. Your turn ends after a pause."],
        ["Hearing you", "The server detects your voice."],
        ["Thinking…", "Your turn has ended. The answer comes next."],
        ["Speaking", "The model answers. “Stop answer” ends the answer."],
        ["Muted", "No audio is sent."],
      ],
      kept: [
        ["On the server", RECORDED_EN],
        ["In this tab", "The audio of each turn, until you start a new conversation or leave."],
        ["In this browser", "The text for 30 days, your settings and your presets."],
      ],
    },
    viewer: {
      about: [
        "Replays a recording: audio or video, the transcript, and the time that the model took for each part.",
        "A link from “Share” works for anyone until it expires. Its guests can play and download the recording, but not rename, comment or share it.",
      ],
      keys: [
        ["Space", "Play or pause"],
        ["← →", "Seek by 2 seconds, with Shift by 10"],
        ["↑ ↓", "Go to the previous or next turn"],
        ["Home End", "Go to the start or the end"],
      ],
      states: [
        ["Recording of this browser", "The server is still merging, or has no recording."],
        ["Incomplete", "The end or a part of the session is lost. A notice says why."],
        ["Shared with you", "You opened a share link."],
      ],
      kept: [
        [
          "On the server",
          "The recording, its comment and its links, until the operator's time limit.",
        ],
        [
          "In this browser",
          "The name of the recording, and its audio for a day if you made it here.",
        ],
      ],
    },
    admin: {
      about: [
        "Shows workers, sessions, the queue, recordings and events as they change, and controls them.",
        "“Drain” lets a worker finish or move its sessions before it stops. “Pages and protocols” turns pages off without ending sessions. Under “Voices” you can listen to all voices and delete uploaded ones.",
        "The newest latency of a call is the time from a received chunk of audio to its result. In other sessions it is the time from the complete question to the first part of the answer. The line beside it shows the latencies since you opened the page, at most 40. The median is over the newest latencies of all sessions.",
      ],
      keys: [],
      states: [
        ["Live", "The page receives each change."],
        ["Reconnecting…", "The connection to the server is lost. The data is old."],
        ["Draining", "The worker accepts no new sessions."],
        ["Recovering", "The session lost its worker and continues on another one."],
      ],
      kept: [
        ["On the server", "All of it. Deleted recordings are lost for everybody."],
        ["In this browser", "The admin token, until you close the tab."],
      ],
    },
  },
};

const ZH: HelpTexts = {
  headings: { keys: "按键", states: "状态", kept: "保存的内容", more: "更多" },
  links: [
    ["/docs", "此服务器的 HTTP 和 WebSocket API"],
    ["/admin", "会话、工作进程和录制（供管理员使用）"],
  ],
  topics: {
    voice: CALL_ZH,
    video: {
      ...CALL_ZH,
      about: [
        "通话时模型还能看到您的摄像头画面，大约每秒一次。您可以随时打断。",
        ...CALL_ZH.about.slice(1),
      ],
      keys: [...CALL_ZH.keys, ["C", "打开或关闭摄像头"]],
    },
    chat: {
      about: [
        "您可以输入或录制问题，并添加图片、音频或视频。模型用文字回答，也可以朗读。",
        "每个问题都与整个聊天一起发送。您可以编辑、重试和删除消息。",
      ],
      keys: [
        ["Enter", "发送消息"],
        ["Shift Enter", "换行"],
        ["空格", "焦点不在文本框时，按住以录制问题"],
      ],
      states: [
        ["正在思考…", "模型已收到问题。"],
        ["正在回答…", "文字正在到达。方形按钮可以停止。"],
        ["已停止", "您停止了回答，或在完成前离开了页面。"],
        ["未发送", "模型不能使用这一部分，之后的问题不再包含它。"],
      ],
      kept: [
        ["在服务器上", "每个回答及其问题的录制，您可以在设置中关闭。"],
        ["在此浏览器中", "聊天及其文件保留 30 天，还有您的设置。见“您的对话”。"],
      ],
    },
    halfDuplex: {
      about: [
        "模型先打招呼，然后轮流说话：您说完并停顿后模型回答。模型说话时麦克风关闭，因此不需要耳机。",
      ],
      keys: [],
      states: [
        ["正在听", "请说话。停顿后您的一轮结束。"],
        ["正在听您说话", "服务器检测到您的声音。"],
        ["正在思考…", "您的一轮已结束，接下来是回答。"],
        ["正在说话", "模型在回答。“停止回答”可以结束它。"],
        ["已静音", "不发送音频。"],
      ],
      kept: [
        ["在服务器上", RECORDED_ZH],
        ["在此标签页中", "每一轮的音频，直到您开始新对话或离开页面。"],
        ["在此浏览器中", "文字保留 30 天，还有您的设置和预设。"],
      ],
    },
    viewer: {
      about: [
        "回放录制：音频或视频、转写，以及模型处理各部分所用的时间。",
        "通过“分享”得到的链接在到期前任何人都能使用。访客可以播放和下载录制，但不能重命名、备注或分享。",
      ],
      keys: [
        ["空格", "播放或暂停"],
        ["← →", "移动 2 秒，按住 Shift 移动 10 秒"],
        ["↑ ↓", "转到上一轮或下一轮"],
        ["Home End", "转到开头或结尾"],
      ],
      states: [
        ["此浏览器的录制", "服务器仍在合并，或没有录制。"],
        ["不完整", "会话的结尾或一部分丢失，提示中有原因。"],
        ["他人分享", "您打开的是分享链接。"],
      ],
      kept: [
        ["在服务器上", "录制、备注和链接，直到管理员设定的期限。"],
        ["在此浏览器中", "录制的名称；如果是在这里录制的，音频保留一天。"],
      ],
    },
    admin: {
      about: [
        "实时显示并控制工作进程、会话、队列、录制和事件。",
        "“排空”让工作进程先结束或移交会话再停止。“页面和协议”可以关闭页面而不结束会话。在“音色”中可以试听所有音色并删除上传的音色。",
        "通话的最新延迟是从收到一段音频到得出其结果的时间；其他会话是从问题完整到回答第一部分的时间。旁边的折线显示打开此页面以来的延迟，最多 40 个。中位数取自所有会话的最新延迟。",
      ],
      keys: [],
      states: [
        ["实时", "页面会收到每个变化。"],
        ["重新连接中…", "与服务器的连接已断开，数据是旧的。"],
        ["排空中", "工作进程不再接受新会话。"],
        ["恢复中", "会话失去了工作进程，将在另一个上继续。"],
      ],
      kept: [
        ["在服务器上", "全部内容。删除的录制任何人都无法再打开。"],
        ["在此浏览器中", "管理令牌，直到您关闭标签页。"],
      ],
    },
  },
};

export const HELP = { en: EN, zh: ZH };

export function topicOf(path: string): TopicName {
  return TOPICS.find(([pattern]) => pattern.test(path))?.[1] ?? "voice";
}

/** The help of the page at `path`. */
export function pageHelp(path: string): TemplateResult {
  const { headings, links, topics } = HELP[language.value];
  const { about, keys, states, kept } = topics[topicOf(path)];
  return html`${about.map((text) => html`<p>${text}</p>`)}
    ${rows(
      headings.keys,
      keys.map(([key, meaning]) => [html`<kbd>${key}</kbd>`, meaning]),
    )}
    ${rows(headings.states, states)} ${rows(headings.kept, kept)}
    <h3>${headings.more}</h3>
    <ul role="list">
      ${links.map(([path, text]) => html`<li><a href=${siteUrl(path)} target="_blank">${text}</a></li>`)}
    </ul>`;
}

function rows(
  title: string,
  pairs: readonly (readonly [string | TemplateResult, string])[],
): TemplateResult | typeof nothing {
  if (pairs.length === 0) return nothing;
  return html`<h3>${title}</h3>
    <dl>
      ${pairs.map(([term, meaning]) => html`<div><dt>${term}</dt><dd>${meaning}</dd></div>`)}
    </dl>`;
}
