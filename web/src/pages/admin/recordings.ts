import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import {
  deleteRecording,
  type RecordingFilter,
  recordingArchive,
  recordings,
} from "../../api/admin.ts";
import type {
  RecordingInfo,
  RecordingPage,
  RecordingState,
  SessionKind,
} from "../../api/answers.ts";
import { ApiError } from "../../api/http.ts";
import { defineStrings, formatBytes, formatClock, formatDateTime } from "../../i18n/language.ts";
import { saveBlob, savedName } from "../../session/browser-recording.ts";
import { showError } from "../../shell/errors.ts";
import { BaseElement, freshId } from "../../ui/base-element.ts";
import { select } from "../../ui/controls.ts";
import { icon } from "../../ui/icon.ts";
import { inactive } from "../../ui/inactive.ts";
import { type Toast, toast } from "../../ui/toasts.ts";
import { confirmAction } from "./confirm-dialog.ts";
import {
  emptyNote,
  KINDS,
  kindName,
  named,
  adminStrings as pageStrings,
  recordingName,
  recordingTitle,
  stateBadge,
  stateStrings,
  waitNote,
} from "./strings.ts";

const recordingsStrings = defineStrings(
  {
    from: "From",
    to: "To",
    searchHint: "Transcript, prompt or id",
    started: "Started",
    length: "Length",
    size: "Size",
    noRecordings: "No recordings",
    noRecordingsHint: "No recording matches, or there are none yet.",
    incomplete: "Only the newest recordings were searched. Select dates to search older ones.",
    actions: "Actions",
    download: (id: string) => `Download the recording of ${id}`,
    delete: "Delete",
    deleteOne: (id: string) => `Delete the recording of ${id}`,
    deleteAsk: "Delete recording?",
    deleteHint: (name: string) =>
      `“${name}” is deleted with its share links. This cannot be undone.`,
    deleted: "Recording deleted",
    deletedBefore: "The recording was already deleted",
    notDeleted: "Cannot delete the recording",
    unfinished: "The recording is not finished",
    unfinishedRemedy: "If its session has ended, try again in a few seconds.",
    range: (first: number, last: number, total: number) => `${first} to ${last} of ${total}`,
    newer: "Newer",
    older: "Older",
    turnsOf: (turns: number) => (turns === 1 ? "1 turn" : `${turns} turns`),
  },
  {
    from: "从",
    to: "到",
    searchHint: "转写内容、提示词或编号",
    started: "开始时间",
    length: "时长",
    size: "大小",
    noRecordings: "没有录制",
    noRecordingsHint: "没有符合条件的录制，或者还没有录制。",
    incomplete: "只搜索了最新的录制。选择日期范围可以搜索更早的录制。",
    actions: "操作",
    download: (id) => `下载 ${id} 的录制`,
    delete: "删除",
    deleteOne: (id) => `删除 ${id} 的录制`,
    deleteAsk: "删除录制？",
    deleteHint: (name) => `“${name}”及其分享链接将被删除，无法恢复。`,
    deleted: "录制已删除",
    deletedBefore: "录制此前已被删除",
    notDeleted: "无法删除录制",
    unfinished: "录制尚未完成",
    unfinishedRemedy: "如果会话已经结束，请几秒后重试。",
    range: (first, last, total) => `第 ${first} 至 ${last} 条，共 ${total} 条`,
    newer: "较新",
    older: "较早",
    turnsOf: (turns) => `${turns} 轮`,
  },
);

const STATES: readonly RecordingState[] = ["recording", "complete", "interrupted"];
const PAGE = 25;
const TYPING_MS = 300;
const DAY_MS = 86_400_000;

const strings = () => ({ ...pageStrings(), ...recordingsStrings() });

/** All recordings with filters, newest first. */
@customElement("an-admin-recordings")
export class AdminRecordings extends BaseElement {
  readonly #id = freshId("recordings");
  #lastSearch = 0;
  #typing = 0;

  @state() private filter: RecordingFilter = {
    kind: "",
    state: "",
    since: "",
    until: "",
    text: "",
  };
  @state() private offset = 0;
  @state() private page: RecordingPage | null = null;
  @state() private failed = false;
  /** Ids that are being downloaded or deleted. */
  @state() private busy: ReadonlySet<string> = new Set();

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#load();
  }

  override disconnectedCallback(): void {
    clearTimeout(this.#typing);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const t = strings();
    return html`<section class="card flush" aria-label=${t.recordings}>
      <div class="filters">${this.#filters()}</div>
      ${this.page?.complete === false ? html`<p class="callout caution">${icon("info")}${t.incomplete}</p>` : nothing}
      ${this.page === null ? waitNote(this.failed, () => void this.#load()) : this.#list(this.page)}
    </section>`;
  }

  #filters(): TemplateResult {
    const t = strings();
    return html`${select<SessionKind | "">({
      label: t.kind,
      value: this.filter.kind,
      options: [
        { value: "", label: t.anyKind },
        ...KINDS.map((value) => ({ value, label: kindName(value) })),
      ],
      onChange: (kind) => this.#narrow({ kind }),
    })}
    ${select<RecordingState | "">({
      label: t.state,
      value: this.filter.state,
      options: [
        { value: "", label: t.anyState },
        ...STATES.map((value) => ({ value, label: named(stateStrings().recordingStates, value) })),
      ],
      onChange: (state) => this.#narrow({ state }),
    })}
    ${this.#date("since", t.from, 0)} ${this.#date("until", t.to, DAY_MS)}
    <div class="field grow">
      <label for="${this.#id}-text">${t.search}</label>
      <input
        class="input"
        id="${this.#id}-text"
        type="search"
        maxlength="200"
        placeholder=${t.searchHint}
        @input=${(event: Event) => this.#type((event.target as HTMLInputElement).value)}
      />
    </div>`;
  }

  /** Converts a local date. `until` gives the end of that day. */
  #date(name: "since" | "until", label: string, later: number): TemplateResult {
    const read = (event: Event) => {
      const { value } = event.target as HTMLInputElement;
      const at = new Date(`${value}T00:00:00`).getTime() + later;
      this.#narrow({ [name]: value === "" ? "" : new Date(at).toISOString() });
    };
    return html`<div class="field">
      <label for="${this.#id}-${name}">${label}</label>
      <input class="input" id="${this.#id}-${name}" type="date" @change=${read} />
    </div>`;
  }

  #list(page: RecordingPage): TemplateResult {
    const t = strings();
    if (page.sessions.length === 0) {
      return emptyNote("search", t.noRecordings, t.noRecordingsHint);
    }
    return html`<div class="table-box" tabindex="0" role="region" aria-label=${t.recordings}>
        <table class="table stacked">
          <thead>
            <tr>
              <th scope="col">${t.session}</th>
              <th scope="col">${t.started}</th>
              <th scope="col">${t.state}</th>
              <th scope="col">${t.length}</th>
              <th scope="col" class="end">${t.size}</th>
              <th><span class="visually-hidden">${t.actions}</span></th>
            </tr>
          </thead>
          <tbody>
            ${page.sessions.map((row) => this.#line(row))}
          </tbody>
        </table>
      </div>
      ${this.#turner(page)}`;
  }

  #line(row: RecordingInfo): TemplateResult {
    const t = strings();
    const busy = this.busy.has(row.id);
    return html`<tr>
      <td class="head">${recordingName(row)}</td>
      <td data-label=${t.started}>${formatDateTime(row.created_at)}</td>
      <td data-label=${t.state}>${stateBadge(stateStrings().recordingStates, row.state)}</td>
      <td data-label=${t.length}>${lengthOf(row)}</td>
      <td data-label=${t.size} class="end">${formatBytes(row.size_bytes)}</td>
      <td class="end">
        <span class="row tight still actions">
          <button
            class="button quiet square small"
            aria-label=${t.download(row.session_id)}
            title=${t.download(row.session_id)}
            ${inactive(busy)}
            @click=${() => void this.#run(row, () => download(row))}
          >
            ${busy ? html`<span class="spinner"></span>` : icon("download")}
          </button>
          <button
            class="button quiet square small"
            aria-label=${t.deleteOne(row.session_id)}
            title=${t.deleteOne(row.session_id)}
            ${inactive(busy)}
            @click=${() => this.#askToDelete(row)}
          >
            ${icon("trash")}
          </button>
        </span>
      </td>
    </tr>`;
  }

  #turner(page: RecordingPage): TemplateResult {
    const t = strings();
    const last = this.offset + page.sessions.length;
    return html`<footer class="row apart">
      <span class="small soft number" role="status">${t.range(this.offset + 1, last, page.total)}</span>
      <span class="row tight">
        <button class="button small" ${inactive(this.offset === 0)} @click=${() => this.#turn(-PAGE)}>
          ${t.newer}
        </button>
        <button class="button small" ${inactive(last >= page.total)} @click=${() => this.#turn(PAGE)}>
          ${t.older}
        </button>
      </span>
    </footer>`;
  }

  #type(text: string): void {
    clearTimeout(this.#typing);
    this.#typing = window.setTimeout(() => this.#narrow({ text: text.trim() }), TYPING_MS);
  }

  #narrow(change: Partial<RecordingFilter>): void {
    this.filter = { ...this.filter, ...change };
    this.offset = 0;
    void this.#load();
  }

  #turn(by: number): void {
    this.offset = Math.max(0, this.offset + by);
    void this.#load();
  }

  /** Of several concurrent searches, only the last result is shown. */
  async #load(): Promise<void> {
    this.#lastSearch += 1;
    const search = this.#lastSearch;
    this.failed = false;
    try {
      const page = await recordings(this.filter, this.offset, PAGE);
      if (search !== this.#lastSearch) return;
      if (page.sessions.length === 0 && this.offset > 0) this.#turn(-PAGE);
      else this.page = page;
    } catch (error) {
      if (search !== this.#lastSearch) return;
      this.page = null;
      this.failed = true;
      showError(error);
    }
  }

  #askToDelete(row: RecordingInfo): void {
    const t = strings();
    confirmAction({
      title: t.deleteAsk,
      text: t.deleteHint(recordingTitle(row)),
      yes: t.delete,
      run: () => void this.#run(row, () => this.#delete(row)),
    });
  }

  async #delete(row: RecordingInfo): Promise<void> {
    try {
      await deleteRecording(row.id);
      toast({ tone: "good", title: strings().deleted });
    } catch (error) {
      const known = refusal(error);
      if (known) toast(known);
      else showError(error, strings().notDeleted);
    }
    await this.#load();
  }

  /** Disables the buttons of the row until the action ends. */
  async #run(row: RecordingInfo, action: () => Promise<void>): Promise<void> {
    this.busy = new Set([...this.busy, row.id]);
    try {
      await action();
    } catch (error) {
      showError(error);
    } finally {
      this.busy = new Set([...this.busy].filter((id) => id !== row.id));
    }
  }
}

async function download(row: RecordingInfo): Promise<void> {
  const archive = await recordingArchive(row.id);
  saveBlob(`${savedName(row.app_type, row.created_at)}.zip`, archive);
}

/** The message for an expected refusal to delete. */
function refusal(error: unknown): Toast | null {
  const t = strings();
  const status = error instanceof ApiError ? error.status : null;
  if (status === 409) return { tone: "caution", title: t.unfinished, remedy: t.unfinishedRemedy };
  return status === 404 ? { tone: "info", title: t.deletedBefore } : null;
}

function lengthOf(row: RecordingInfo): string {
  if (row.duration_s === null) return strings().none;
  const length = formatClock(row.duration_s);
  return row.turns === null ? length : `${length}, ${strings().turnsOf(row.turns)}`;
}
