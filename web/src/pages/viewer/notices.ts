import { html, nothing, type TemplateResult } from "lit";
import { ApiError } from "../../api/http.ts";
import type { RecordingMeta } from "../../api/recordings.ts";
import { common } from "../../i18n/common.ts";
import { formatClock } from "../../i18n/format.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { isShareToken } from "./assets.ts";
import { noticeStrings } from "./notice-strings.ts";
import type { LoadState, OwnFiles } from "./recording-loader.ts";
import { viewerStrings } from "./strings.ts";

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
  const { missing = [], degraded = [] } = meta;
  if (meta.state === "interrupted") {
    const why = [...new Set(missing.map((gap) => gap.why ?? "").filter((text) => text !== ""))];
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
      ${isShareToken(name) ? nothing : html`<a class="button" href="/">${noticeStrings().home}</a>`}
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
