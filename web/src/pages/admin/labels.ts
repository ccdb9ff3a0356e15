import { html, type TemplateResult } from "lit";
import type { RecordingInfo, SessionKind } from "../../api/admin.ts";
import { formatDateTime } from "../../i18n/format.ts";
import { type IconName, icon } from "../../ui/icon.ts";
import { stateStrings } from "./state-strings.ts";

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
