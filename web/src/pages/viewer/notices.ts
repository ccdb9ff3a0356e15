import { html, nothing, type TemplateResult } from "lit";
import type { RecordingMeta } from "../../api/answers.ts";
import { ApiError } from "../../api/http.ts";
import { isShareToken } from "../../api/recordings.ts";
import { siteUrl } from "../../api/site.ts";
import { common } from "../../i18n/common.ts";
import { defineStrings, formatClock } from "../../i18n/language.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import type { LoadState, OwnFiles } from "./recording-loader.ts";
import { viewerStrings } from "./strings.ts";

/** Texts of the notices. */
export const noticeStrings = defineStrings(
  {
    live: "This session is still active",
    liveWhy: "The recording appears here when the session ends.",
    liveSince: (clock: string) => `Recording for ${clock}`,
    own: "Recording of this browser",
    ownMerging: "The recording of the server replaces it in a moment.",
    ownOnly:
      "The server has no recording of this conversation. This browser keeps the audio for a day.",
    merging: "Merging audio",
    mergingWhy: "You can already read the transcript. The player appears in a moment.",
    none: "This recording has no audio",
    noneWhy: "There is nothing to play.",
    failed: "Cannot merge the audio",
    failedWhy: "The download contains the separate audio files.",
    broken: "Your browser cannot play this recording",
    brokenWhy: "Download it and open the file merged_replay in another player.",
    missing: "Parts of this recording are missing",
    missingWhy: (why: string) => `They could not be recorded${why === "" ? "" : `: ${why}`}.`,
    endUnknown: "The reason why the session ended is unknown.",
    degraded: "Recording was delayed",
    degradedWhy: (why: string) =>
      `The server had disk problems (${why}). The delayed data was written later.`,
    notFound: "Recording not found",
    notFoundWhy: "It may have been deleted, or the link is incomplete. Check the link.",
    expired: "This link is no longer valid",
    expiredWhy: "It expired or was revoked. Ask the sender for a new link.",
    noRecordings: "Recordings are unavailable",
    noRecordingsWhy: "The server cannot read recordings at the moment. Try again in a minute.",
    keyNeeded: "Key required",
    keyNeededWhy: "This server requires a key to open recordings. Ask its operator for one.",
    unreachable: "Cannot reach the server",
    unreachableWhy: "Check your internet connection, then try again.",
    other: "Cannot open the recording",
  },
  {
    live: "会话仍在进行",
    liveWhy: "会话结束后，录制会显示在这里。",
    liveSince: (clock) => `已录制 ${clock}`,
    own: "此浏览器的录制",
    ownMerging: "稍后会换成服务器的录制。",
    ownOnly: "服务器没有此对话的录制。此浏览器会将音频保留一天。",
    merging: "正在合并音频",
    mergingWhy: "您可以先阅读转写，播放器稍后出现。",
    none: "此录制没有音频",
    noneWhy: "没有可播放的内容。",
    failed: "无法合并音频",
    failedWhy: "下载文件包含单独的音频文件。",
    broken: "浏览器无法播放此录制",
    brokenWhy: "请下载后用其他播放器打开 merged_replay 文件。",
    missing: "此录制有部分内容缺失",
    missingWhy: (why) => `未能录下${why === "" ? "" : `：${why}`}。`,
    endUnknown: "会话结束的原因未知。",
    degraded: "录制曾延迟",
    degradedWhy: (why) => `服务器磁盘曾出现问题（${why}），延迟的数据已在之后写入。`,
    notFound: "未找到录制",
    notFoundWhy: "可能已被删除，或者链接不完整。请检查链接。",
    expired: "此链接已失效",
    expiredWhy: "链接已过期或被撤销。请向发送者索取新的链接。",
    noRecordings: "暂时无法读取录制",
    noRecordingsWhy: "服务器目前无法读取录制，请稍后再试。",
    keyNeeded: "需要密钥",
    keyNeededWhy: "打开录制需要密钥，请向管理员索取。",
    unreachable: "服务器没有响应",
    unreachableWhy: "请检查网络连接，然后重试。",
    other: "无法打开此录制",
  },
);

interface Notice {
  readonly tone: "" | "caution" | "danger";
  readonly sign: IconName;
  readonly title: string;
  readonly why: string;
}

/** Notices about an incomplete or unfinished recording. */
export function recordingNotices(loaded: LoadState & { is: "open" }, isBroken: boolean) {
  const { meta, own } = loaded;
  return html`${[...onDevice(own), ...lost(meta), ...replay(meta, isBroken)].map(
    ({ tone, sign, title, why }) =>
      html`<div class="callout ${tone}" role="note">
        ${icon(sign)}
        <div>
          <p class="strong">${title}</p>
          <p>${why}</p>
        </div>
      </div>`,
  )}`;
}

function* onDevice(own: OwnFiles | null): Generator<Notice> {
  const t = noticeStrings();
  if (own?.why === "merging") {
    yield { tone: "", sign: "clock", title: t.own, why: t.ownMerging };
  } else if (own) yield { tone: "", sign: "info", title: t.own, why: t.ownOnly };
}

function* lost(meta: RecordingMeta): Generator<Notice> {
  const t = noticeStrings();
  const { missing, degraded } = meta;
  if (meta.state === "interrupted") {
    const why = [...new Set(missing.map((gap) => gap.why).filter((text) => text !== ""))];
    const text = missing.length === 0 ? t.endUnknown : t.missingWhy(why.join("; "));
    yield { tone: "caution", sign: "alert", title: t.missing, why: text };
  }
  if (degraded.length > 0) {
    const why = [...new Set(degraded.map(({ error }) => error))].join("; ");
    yield { tone: "", sign: "info", title: t.degraded, why: t.degradedWhy(why) };
  }
}

function* replay({ replay: state, app_type }: RecordingMeta, isBroken: boolean): Generator<Notice> {
  const t = noticeStrings();
  if (state === "merging") {
    yield { tone: "", sign: "clock", title: t.merging, why: t.mergingWhy };
  } else if (state === "failed") {
    yield { tone: "caution", sign: "alert", title: t.failed, why: t.failedWhy };
  } else if (state !== "ready" && app_type !== "chat") {
    yield { tone: "", sign: "speakerOff", title: t.none, why: t.noneWhy };
  }
  if (isBroken) yield { tone: "caution", sign: "alert", title: t.broken, why: t.brokenWhy };
}

/** The session is still active. */
export function liveNotice(meta: RecordingMeta): TemplateResult {
  const t = noticeStrings();
  const seconds = (Date.now() - Date.parse(meta.created_at)) / 1000;
  return html`<div class="card empty">
    <span class="badge danger dot live">${viewerStrings().kinds[meta.app_type]}</span>
    <h1>${t.live}</h1>
    <p>${t.liveWhy}</p>
    <p class="number">${t.liveSince(formatClock(seconds))}</p>
  </div>`;
}

/** Why the recording cannot be shown. */
export function unavailableNotice(name: string, error: unknown, again: () => void): TemplateResult {
  const { sign, title, why, mayHelp } = reasonOf(name, error);
  return html`<div class="card empty">
    ${icon(sign)}
    <h1>${title}</h1>
    <p>${why}</p>
    <div class="row">
      ${mayHelp ? html`<button class="button primary" @click=${again}>${common().retry}</button>` : nothing}
      ${isShareToken(name) ? nothing : html`<a class="button" href=${siteUrl("/")}>${common().nav.home}</a>`}
    </div>
  </div>`;
}

interface Reason {
  readonly sign: IconName;
  readonly title: string;
  readonly why: string;
  /** Label of the retry button. */
  readonly mayHelp: boolean;
}

function reasonOf(name: string, error: unknown): Reason {
  const t = noticeStrings();
  const status = error instanceof ApiError ? error.status : null;
  if (status === 404 || status === 400) {
    return isShareToken(name)
      ? { sign: "link", title: t.expired, why: t.expiredWhy, mayHelp: false }
      : { sign: "search", title: t.notFound, why: t.notFoundWhy, mayHelp: false };
  }
  if (status === 401 || status === 403) {
    return { sign: "key", title: t.keyNeeded, why: t.keyNeededWhy, mayHelp: true };
  }
  if (status === 503) {
    return { sign: "file", title: t.noRecordings, why: t.noRecordingsWhy, mayHelp: true };
  }
  if (status === 0) {
    return { sign: "wifiOff", title: t.unreachable, why: t.unreachableWhy, mayHelp: true };
  }
  const why = error instanceof Error ? error.message : String(error);
  return { sign: "alert", title: t.other, why, mayHelp: true };
}
