import { html, nothing, type TemplateResult } from "lit";
import { ApiError } from "../../api/http.ts";
import type { Meta } from "../../api/recordings.ts";
import { common } from "../../i18n/common.ts";
import { clock } from "../../i18n/format.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { isShareToken } from "./assets.ts";
import { noticeWords } from "./notice-words.ts";
import { words } from "./words.ts";

interface Notice {
  readonly tone: "" | "caution" | "danger";
  readonly sign: IconName;
  readonly title: string;
  readonly why: string;
}

/** What one should know of a recording before one trusts it. */
export function notices(meta: Meta, isBroken: boolean): TemplateResult {
  return html`${[...lost(meta), ...replay(meta, isBroken)].map(
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

function* lost(meta: Meta): Generator<Notice> {
  const say = noticeWords();
  const { missing = [], degraded = [] } = meta;
  if (meta.state === "interrupted") {
    const why = [...new Set(missing.map((gap) => gap.why ?? "").filter((text) => text !== ""))];
    const text = missing.length === 0 ? say.endUnknown : say.missingWhy(why.join("; "));
    yield { tone: "caution", sign: "alert", title: say.missing, why: text };
  }
  if (degraded.length > 0) {
    const why = [...new Set(degraded.map(({ error }) => error))].join("; ");
    yield { tone: "", sign: "info", title: say.degraded, why: say.degradedWhy(why) };
  }
}

function* replay({ replay: state, app_type }: Meta, isBroken: boolean): Generator<Notice> {
  const say = noticeWords();
  if (state === "merging") {
    yield { tone: "", sign: "clock", title: say.merging, why: say.mergingWhy };
  } else if (state === "failed") {
    yield { tone: "caution", sign: "alert", title: say.failed, why: say.failedWhy };
  } else if (state !== "ready" && app_type !== "chat") {
    yield { tone: "", sign: "speakerOff", title: say.none, why: say.noneWhy };
  }
  if (isBroken) yield { tone: "caution", sign: "alert", title: say.broken, why: say.brokenWhy };
}

/** The session goes on. */
export function stillLive(meta: Meta): TemplateResult {
  const say = noticeWords();
  const seconds = (Date.now() - Date.parse(meta.created_at)) / 1000;
  return html`<div class="card empty">
    <span class="badge danger dot live">${words().kinds[meta.app_type]}</span>
    <h1>${say.live}</h1>
    <p>${say.liveWhy}</p>
    <p class="number">${say.liveSince(clock(seconds))}</p>
  </div>`;
}

/** Why there is nothing to see. */
export function closed(name: string, error: unknown, again: () => void): TemplateResult {
  const { sign, title, why, mayHelp } = reasonOf(name, error);
  return html`<div class="card empty">
    ${icon(sign)}
    <h1>${title}</h1>
    <p>${why}</p>
    <div class="row">
      ${mayHelp ? html`<button class="button primary" @click=${again}>${common().retry}</button>` : nothing}
      ${isShareToken(name) ? nothing : html`<a class="button" href="/">${noticeWords().home}</a>`}
    </div>
  </div>`;
}

interface Reason {
  readonly sign: IconName;
  readonly title: string;
  readonly why: string;
  /** To try again. */
  readonly mayHelp: boolean;
}

function reasonOf(name: string, error: unknown): Reason {
  const say = noticeWords();
  const status = error instanceof ApiError ? error.status : null;
  if (status === 404 || status === 400) {
    return isShareToken(name)
      ? { sign: "link", title: say.expired, why: say.expiredWhy, mayHelp: false }
      : { sign: "search", title: say.notFound, why: say.notFoundWhy, mayHelp: false };
  }
  if (status === 401 || status === 403) {
    return { sign: "key", title: say.keyNeeded, why: say.keyNeededWhy, mayHelp: true };
  }
  if (status === 503) {
    return { sign: "file", title: say.noRecordings, why: say.noRecordingsWhy, mayHelp: true };
  }
  if (status === 0) {
    return { sign: "wifiOff", title: say.unreachable, why: say.unreachableWhy, mayHelp: true };
  }
  const why = error instanceof Error ? error.message : String(error);
  return { sign: "alert", title: say.other, why, mayHelp: true };
}
