/** The texts of `<antiphon-call>`, in English and Chinese. */
export interface CallStrings {
  call: string;
  hangUp: string;
  mute: string;
  unmute: string;
  opening: string;
  connecting: string;
  queued: (position: number) => string;
  listening: string;
  speaking: string;
  muted: string;
  reconnecting: string;
  stopping: string;
  ended: string;
  noMicrophone: string;
  microphoneLost: string;
  notOpened: string;
  refused: string;
  wrongKey: string;
  unreachable: string;
  you: string;
  model: string;
}

const EN: CallStrings = {
  call: "Call",
  hangUp: "Hang up",
  mute: "Mute",
  unmute: "Unmute",
  opening: "Allow the microphone",
  connecting: "Connecting",
  queued: (position) => `Number ${position} in the queue`,
  listening: "Listening",
  speaking: "Speaking",
  muted: "You are muted",
  reconnecting: "The connection is lost. Reconnecting",
  stopping: "Hanging up",
  ended: "The call has ended",
  noMicrophone: "The microphone cannot be used. Allow it in the browser, and call again.",
  microphoneLost: "The microphone has stopped. Hang up, and call again.",
  notOpened: "The call cannot start",
  refused: "The server refused the call",
  wrongKey: "The key is not valid.",
  unreachable: "The server cannot be reached. Try again later.",
  you: "You",
  model: "Answer",
};

const ZH: CallStrings = {
  call: "通话",
  hangUp: "挂断",
  mute: "静音",
  unmute: "取消静音",
  opening: "请允许使用麦克风",
  connecting: "正在连接",
  queued: (position) => `排队第 ${position} 位`,
  listening: "正在听",
  speaking: "正在说",
  muted: "您已静音",
  reconnecting: "连接中断，正在重连",
  stopping: "正在挂断",
  ended: "通话已结束",
  noMicrophone: "无法使用麦克风。请在浏览器中允许后重新通话。",
  microphoneLost: "麦克风已停止。请挂断后重新通话。",
  notOpened: "无法发起通话",
  refused: "服务器拒绝了通话",
  wrongKey: "密钥无效。",
  unreachable: "无法连接服务器，请稍后再试。",
  you: "您",
  model: "回答",
};

/** `language`: a tag such as `en-GB` or `zh-CN`. */
export function callStrings(language: string): CallStrings {
  return language.toLowerCase().startsWith("zh") ? ZH : EN;
}
