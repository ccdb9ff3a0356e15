import { html, type TemplateResult } from "lit";
import type { RecordingInfo, SessionKind } from "../../api/answers.ts";
import { siteUrl } from "../../api/site.ts";
import { common } from "../../i18n/common.ts";
import { defineStrings, formatDateTime } from "../../i18n/language.ts";
import { type IconName, icon } from "../../ui/icon.ts";

/** UI texts of the admin page. */
export const adminStrings = defineStrings(
  {
    title: "Admin",
    description: "Workers, sessions, the queue and recordings of this server.",
    parts: "Sections",
    live: "Live",
    recordings: "Recordings",
    voices: "Voices",
    voicesHint:
      "Users can choose these voices with a model that imitates voices. The engine “local” only selects the nearest of its own voices. Conversations that use a deleted voice continue.",
    settings: "Settings",
    events: "Events",

    connection: {
      connecting: "Connecting…",
      open: "Live",
      lost: "Reconnecting…",
      refused: "No access",
    },
    refused: "Admin token required",
    refusedHint: "The server sets it as ANTIPHON_ADMIN_TOKEN.",
    enter: "Enter token",
    outage: "Redis does not answer",
    outageHint: (when: string) =>
      `The data is from ${when}. Active sessions continue, but new ones cannot start.`,

    slots: "Slots in use",
    slotsInUse: (used: number, all: number) => `${used} of ${all}`,
    waiting: "Waiting",
    longest: "Longest wait",
    answers: "Median latency",
    answersHint: "Median of the newest latency of each session.",
    edges: "Edges",
    none: "–",

    workers: "Workers",
    noWorkers: "No worker is running",
    noWorkersHint: "Start one with “antiphon worker”, or check the log of your workers.",
    device: "Device",
    memory: "Memory",
    memoryOf: (used: string, all: string) => `${used} of ${all} GB`,
    serves: "Serves",
    served: "Sessions",
    mean: "Mean unit time",
    misses: "Late units",
    slotsOf: (used: number, all: number) => `${used} of ${all} slots in use`,
    drain: "Drain",
    drainAsk: (id: string) => `Drain ${id}?`,
    drainHint:
      "It accepts no new sessions, finishes its sessions or moves them to other workers, and then stops.",
    drainAsked: "The worker is draining",

    sessions: "Active sessions",
    noSessions: "No active sessions",
    session: "Session",
    state: "State",
    worker: "Worker",
    since: "Duration",
    latency: "Newest latency",
    latencyHint:
      "In calls from a received chunk to its result, otherwise from the complete question to the first part of the answer.",
    history: "History",
    resumed: (times: number) => (times === 1 ? "resumed once" : `resumed ${times} times`),
    moved: (times: number) => (times === 1 ? "moved once" : `moved ${times} times`),
    lately: (last: string, most: string) => `Newest latency ${last}, highest ${most}`,

    queue: "Queue",
    noQueue: "The queue is empty",
    position: "Position",
    waited: "Waited",
    expected: "Estimated wait",
    remove: "Remove",
    removeOne: (id: string) => `Remove ${id}`,
    removeAsk: "Remove from queue?",
    removeHint: (id: string) => `${id} loses its position, and its client is notified.`,
    removed: "Removed from queue",
    notQueued: "It is no longer in the queue",

    pages: "Pages and protocols",
    pagesHint: "Active sessions continue. New ones cannot start.",
    realtime: "Realtime API",

    estimates: "Waiting times",
    estimatesHint:
      "Assumed length of a session. After three measured sessions, the moving average is used.",
    seconds: (kind: string) => `${kind}, seconds`,
    measured: (seconds: string, samples: number) =>
      `Measured: ${seconds} s, ${samples} ${samples === 1 ? "session" : "sessions"}`,
    unmeasured: "Not measured yet",
    alpha: "Weight of a new sample",
    alphaHint: "Above 0, up to 1. With a higher weight the average adapts faster.",
    saved: "Waiting times saved",
    notLoaded: "Not loaded",

    kind: "Kind",
    anyKind: "All kinds",
    anyState: "All states",
    search: "Search",
    openOne: (id: string) => `Open the recording of ${id}`,

    noEvents: "No events",
    noEventsHint: "None of the newest 300 events matches.",
    filter: "Session, worker or edge",
    recording: "Recording",
  },
  {
    title: "管理",
    description: "此服务器的工作进程、会话、队列和录制。",
    parts: "分区",
    live: "实时",
    recordings: "录制",
    voices: "音色",
    voicesHint:
      "使用能模仿音色的模型时，用户可以选择这些音色。引擎“local”不模仿，只选择最接近的自带音色。使用已删除音色的对话会继续。",
    settings: "设置",
    events: "事件",

    connection: { connecting: "连接中…", open: "实时", lost: "重新连接中…", refused: "无权访问" },
    refused: "此页面需要管理令牌",
    refusedHint: "令牌在服务器上由 ANTIPHON_ADMIN_TOKEN 设置。",
    enter: "输入令牌",
    outage: "Redis 没有响应",
    outageHint: (when) => `当前显示的是 ${when} 的数据。进行中的会话会继续，但无法开始新的会话。`,

    slots: "使用中的名额",
    slotsInUse: (used, all) => `${used} / ${all}`,
    waiting: "排队",
    longest: "最长等待",
    answers: "延迟中位数",
    answersHint: "各会话最新延迟的中位数。",
    edges: "边缘节点",
    none: "–",

    workers: "工作进程",
    noWorkers: "没有工作进程在运行",
    noWorkersHint: "用“antiphon worker”启动一个，或查看工作进程的日志。",
    device: "设备",
    memory: "内存",
    memoryOf: (used, all) => `${used} / ${all} GB`,
    serves: "支持",
    served: "会话数",
    mean: "平均单元时间",
    misses: "超时单元",
    slotsOf: (used, all) => `${all} 个名额中已用 ${used} 个`,
    drain: "排空",
    drainAsk: (id) => `排空 ${id}？`,
    drainHint: "它不再接受新会话，让现有会话结束或移交给其他工作进程，然后退出。",
    drainAsked: "工作进程正在排空",

    sessions: "进行中的会话",
    noSessions: "没有进行中的会话",
    session: "会话",
    state: "状态",
    worker: "工作进程",
    since: "时长",
    latency: "最新延迟",
    latencyHint: "通话：从收到一段音频到得出其结果；其他会话：从问题完整到回答的第一部分。",
    history: "经历",
    resumed: (times) => `恢复 ${times} 次`,
    moved: (times) => `迁移 ${times} 次`,
    lately: (last, most) => `最新延迟 ${last}，最高 ${most}`,

    queue: "队列",
    noQueue: "队列为空",
    position: "位置",
    waited: "已等待",
    expected: "预计等待",
    remove: "移除",
    removeOne: (id) => `移除 ${id}`,
    removeAsk: "移出队列？",
    removeHint: (id) => `${id} 将失去排队位置，其客户端会收到通知。`,
    removed: "已移出队列",
    notQueued: "它已不在队列中",

    pages: "页面和协议",
    pagesHint: "进行中的会话会继续，但无法开始新的会话。",
    realtime: "Realtime API",

    estimates: "等待时间",
    estimatesHint: "假定的会话时长。测得三个会话之后，使用移动平均值。",
    seconds: (kind) => `${kind}（秒）`,
    measured: (seconds, samples) => `实测：${seconds} 秒，${samples} 个会话`,
    unmeasured: "尚无实测",
    alpha: "新样本的权重",
    alphaHint: "大于 0，至多 1。权重越大，平均值变化越快。",
    saved: "等待时间已保存",
    notLoaded: "未能加载",

    kind: "类型",
    anyKind: "所有类型",
    anyState: "所有状态",
    search: "搜索",
    openOne: (id) => `打开 ${id} 的录制`,

    noEvents: "没有事件",
    noEventsHint: "最近 300 个事件中没有符合条件的。",
    filter: "会话、工作进程或边缘节点",
    recording: "录制",
  },
);

/** Names of kinds, states and reasons. */
export const stateStrings = defineStrings(
  {
    kinds: {
      chat: "Chat",
      half_duplex_audio: "Take turns",
      audio_duplex: "Voice call",
      omni_duplex: "Video call",
      turns: "OpenAI Realtime",
    },
    states: {
      queued: "Waiting",
      assigned: "Assigned",
      preparing: "Preparing",
      active: "Active",
      paused: "Paused",
      recovering: "Recovering",
      ended: "Ended",
    },
    workerStates: {
      loading: "Loading",
      idle: "Idle",
      busy_chat: "In a chat",
      busy_half_duplex: "Taking turns",
      duplex_active: "In a call",
      duplex_paused: "Paused",
      draining: "Draining",
      error: "Error",
      offline: "Offline",
    },
    recordingStates: {
      recording: "Recording",
      complete: "Complete",
      interrupted: "Interrupted",
    },
    reasons: {
      stopped: "ended by the client",
      timeout: "timed out",
      client_gone: "client disconnected",
      cancelled: "cancelled by an operator",
      edge_lost: "edge lost",
      worker_lost: "worker lost",
      server_shutdown: "server shutdown",
      context_full: "context full",
      error: "error",
    },
    waitReasons: {
      no_worker: "no worker",
      kind_not_served: "no worker for this kind",
      worker_loading: "worker is loading",
    },
    asks: { break: "asked to stop the answer" },
  },
  {
    kinds: {
      chat: "聊天",
      half_duplex_audio: "轮流说话",
      audio_duplex: "语音通话",
      omni_duplex: "视频通话",
      turns: "OpenAI Realtime",
    },
    states: {
      queued: "排队中",
      assigned: "已分配",
      preparing: "准备中",
      active: "进行中",
      paused: "已暂停",
      recovering: "恢复中",
      ended: "已结束",
    },
    workerStates: {
      loading: "加载中",
      idle: "空闲",
      busy_chat: "聊天中",
      busy_half_duplex: "轮流说话中",
      duplex_active: "通话中",
      duplex_paused: "已暂停",
      draining: "排空中",
      error: "错误",
      offline: "离线",
    },
    recordingStates: { recording: "录制中", complete: "完整", interrupted: "中断" },
    reasons: {
      stopped: "客户端结束",
      timeout: "超时",
      client_gone: "客户端断开",
      cancelled: "被管理员取消",
      edge_lost: "边缘节点失联",
      worker_lost: "工作进程失联",
      server_shutdown: "服务器关闭",
      context_full: "上下文已满",
      error: "错误",
    },
    waitReasons: {
      no_worker: "没有工作进程",
      kind_not_served: "没有提供此类会话的工作进程",
      worker_loading: "工作进程正在加载",
    },
    asks: { break: "被要求停止回答" },
  },
);

const KIND_ICONS: Record<SessionKind, IconName> = {
  chat: "chat",
  half_duplex_audio: "turns",
  audio_duplex: "phone",
  omni_duplex: "camera",
  turns: "turns",
};

export const KINDS = Object.keys(KIND_ICONS) as readonly SessionKind[];

const TONES: Readonly<Record<string, string>> = {
  active: "good",
  duplex_active: "good",
  busy_chat: "good",
  busy_half_duplex: "good",
  complete: "good",
  idle: "accent",
  assigned: "accent",
  preparing: "accent",
  loading: "accent",
  recording: "accent",
  queued: "caution",
  paused: "caution",
  duplex_paused: "caution",
  draining: "caution",
  interrupted: "caution",
  recovering: "danger",
  error: "danger",
  offline: "danger",
};

/** Translates a value of the server. Unknown values are shown as they are. */
export function named(names: Readonly<Record<string, string>>, word: string): string {
  return names[word] ?? word;
}

export function kindName(kind: string): string {
  return named(stateStrings().kinds, kind);
}

export function kindIcon(kind: SessionKind): TemplateResult {
  return icon(KIND_ICONS[kind] ?? "voice");
}

/** A badge in the colour of the state. */
export function stateBadge(names: Readonly<Record<string, string>>, state: string): TemplateResult {
  return html`<span class="badge dot ${TONES[state] ?? ""}">${named(names, state)}</span>`;
}

/** Session id and kind. Long ids wrap. */
export function sessionName(id: string, kind: SessionKind): TemplateResult {
  return html`<span class="who">
    <span class="sign">${kindIcon(kind)}</span>
    <span class="grow"
      ><span class="id truncate" title=${id}>${id}</span
      ><span class="tiny soft">${kindName(kind)}</span></span
    >
  </span>`;
}

/** What was said first. Kind and time if that is unknown. */
export function recordingTitle({ first_words, app_type, created_at }: RecordingInfo): string {
  return first_words || `${kindName(app_type)}, ${formatDateTime(created_at)}`;
}

/** Title with a link to the viewer, and below it the kind and the session id. */
export function recordingName(row: RecordingInfo): TemplateResult {
  const title = recordingTitle(row);
  return html`<span class="who">
    <span class="sign">${kindIcon(row.app_type)}</span>
    <span class="grow"
      ><a class="words truncate" href=${siteUrl(row.url)} title=${title} dir="auto">${title}</a
      ><span class="tiny soft truncate" title=${row.session_id}
        >${kindName(row.app_type)} · ${row.session_id}</span
      ></span
    >
  </span>`;
}

/** Placeholder of what loads. After a failure it can be loaded again. */
export function waitNote(failed: boolean, retry: () => void): TemplateResult {
  return html`<div class="empty">
    ${
      failed
        ? html`<strong>${adminStrings().notLoaded}</strong>
            <button class="button" @click=${retry}>${icon("refresh")} ${common().retry}</button>`
        : html`<span class="spinner"></span>`
    }
  </div>`;
}

/** Placeholder of an empty list. */
export function emptyNote(name: IconName, title: string, hint = ""): TemplateResult {
  return html`<div class="empty">
    ${icon(name)}<strong>${title}</strong>${hint ? html`<p>${hint}</p>` : ""}
  </div>`;
}
