import { html, type TemplateResult } from "lit";
import type { RecordingInfo, SessionKind } from "../../api/admin.ts";
import { formatDateTime } from "../../i18n/format.ts";
import { defineStrings } from "../../i18n/language.ts";
import { type IconName, icon } from "../../ui/icon.ts";

/** Names of kinds, states and reasons. */
export const stateStrings = defineStrings(
  {
    kinds: {
      chat: "Chat",
      half_duplex_audio: "Half-duplex",
      audio_duplex: "Voice call",
      omni_duplex: "Video call",
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
      busy_half_duplex: "Half-duplex",
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
      half_duplex_audio: "半双工",
      audio_duplex: "语音通话",
      omni_duplex: "视频通话",
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
      busy_half_duplex: "半双工",
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
      ><a class="words truncate" href=${row.url} title=${title} dir="auto">${title}</a
      ><span class="tiny soft truncate" title=${row.session_id}
        >${kindName(row.app_type)} · ${row.session_id}</span
      ></span
    >
  </span>`;
}

/** Placeholder of an empty list. */
export function emptyNote(name: IconName, title: string, hint = ""): TemplateResult {
  return html`<div class="empty">
    ${icon(name)}<strong>${title}</strong>${hint ? html`<p>${hint}</p>` : ""}
  </div>`;
}
