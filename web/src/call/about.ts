import { html, nothing, type TemplateResult } from "lit";
import { customElement, state } from "lit/decorators.js";
import type { Capabilities, PageInfo, ServiceStatus } from "../api/answers.ts";
import { serviceStatus } from "../api/catalog.ts";
import { siteUrl } from "../api/site.ts";
import { common } from "../i18n/common.ts";
import { defineStrings } from "../i18n/language.ts";
import { capabilities } from "../shell/capabilities.ts";
import { menu, pageIcon, pageName } from "../shell/header.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { type IconName, icon } from "../ui/icon.ts";
import "./call-page.css";

const aboutStrings = defineStrings(
  {
    modes: "Modes",
    about: {
      audio_duplex: "Talk naturally and interrupt at any time.",
      omni: "Talk about what your camera shows.",
      half_duplex_audio: "The model answers when you finish speaking.",
      turnbased: "Type, or attach audio, images or video. Get written and spoken answers.",
    },
    chatWithoutSight: "Type, or attach audio. Get written and spoken answers.",

    service: "Server status",
    free: (places: number) => (places === 1 ? "1 free slot" : `${places} free slots`),
    full: (waiting: number) =>
      waiting === 0 ? "No free slots" : `No free slots, ${waiting} waiting`,
    loading: "Loading the model",
    down: "No model is running",
    unknown: "Status unknown",
    simulated: "Simulated engine",

    facts: {
      interrupt: "Interrupt at any time",
      interruptText: "Start talking and the model stops. No button or wake word needed.",
      resume: "Reconnects automatically",
      resumeText: "If your connection drops, the session resumes when you are back online.",
      private: "Private recordings",
      privateText:
        "Only people with the link and the server's administrators can open a recording.",
    },

    footer: "Antiphon: a song in two answering voices.",
    api: "API",
  },
  {
    modes: "模式",
    about: {
      audio_duplex: "像平常一样说话，随时打断。",
      omni: "聊聊摄像头拍到的内容。",
      half_duplex_audio: "您说完后模型回答。",
      turnbased: "输入文字，或添加音频、图片或视频，获得文字和语音回答。",
    },
    chatWithoutSight: "输入文字，或添加音频，获得文字和语音回答。",

    service: "服务器状态",
    free: (places) => `${places} 个空闲名额`,
    full: (waiting) => (waiting === 0 ? "没有空闲名额" : `没有空闲名额，${waiting} 人在排队`),
    loading: "模型正在加载",
    down: "没有模型在运行",
    unknown: "状态未知",
    simulated: "模拟引擎",

    facts: {
      interrupt: "随时打断",
      interruptText: "您一开口，模型就会停下。无需按键，也无需唤醒词。",
      resume: "自动重连",
      resumeText: "网络中断后，恢复连接即可继续会话。",
      private: "录制保密",
      privateText: "只有拥有链接的人和服务器管理员可以打开录制。",
    },

    footer: "Antiphon（应答歌）：两个声音彼此应和。",
    api: "API",
  },
);

/** Below the call: all pages, what the product does, and links to the API and the admin page. */
export function aboutAntiphon(): TemplateResult {
  const t = aboutStrings();
  return html`<div class="about">
    <section class="stack" aria-labelledby="modes">
      <h2 id="modes">${t.modes}</h2>
      <ul role="list" class="modes">
        ${menu.value.map((app) => mode(app, capabilities.value))}
      </ul>
    </section>
    ${features()}
    <footer class="row apart small soft">
      <p>${t.footer}</p>
      <nav class="row" aria-label=${t.service}>
        <a href=${siteUrl("/docs")}>${t.api}</a>
        <a href=${siteUrl("/admin")}>${common().nav.admin}</a>
      </nav>
    </footer>
  </div>`;
}

function mode(app: PageInfo, able: Capabilities | null): TemplateResult {
  return html`<li>
    <a class="card mode" href=${siteUrl(app.route)}>
      <span class="sign">${icon(pageIcon(app))}</span>
      <span class="stack tight">
        <strong>${pageName(app)}</strong>
        <span class="small soft">${aboutMode(app, able)}</span>
      </span>
      <span class="go">${icon("arrow")}</span>
    </a>
  </li>`;
}

/** What a page offers with the models that run. */
function aboutMode({ app_id, name }: PageInfo, able: Capabilities | null): string {
  const { about, chatWithoutSight } = aboutStrings();
  if (able?.model != null && !able.sees && !able.simulated) {
    if (app_id === "omni") return common().capabilities.blind(able.model);
    if (app_id === "turnbased") return chatWithoutSight;
  }
  const text = (about as Readonly<Record<string, string>>)[app_id] ?? name;
  if (app_id !== "omni" || !able?.sees_in_words || able.simulated) return text;
  return `${text} ${common().capabilities.recognises}`;
}

function features(): TemplateResult {
  const t = aboutStrings().facts;
  const rows: readonly (readonly [IconName, string, string])[] = [
    ["voice", t.interrupt, t.interruptText],
    ["refresh", t.resume, t.resumeText],
    ["key", t.private, t.privateText],
  ];
  return html`<ul role="list" class="tiles features">
    ${rows.map(
      ([name, title, text]) => html`<li>
        ${icon(name)}
        <h3>${title}</h3>
        <p class="small soft">${text}</p>
      </li>`,
    )}
  </ul>`;
}

interface GateDecision {
  readonly tone: "good" | "caution" | "danger" | "";
  readonly text: string;
}

/** Whether a session can start now. */
@customElement("an-service-badge")
export class ServiceBadge extends BaseElement {
  readonly #able = new StoreController(this, capabilities);

  @state() private status: ServiceStatus | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("visibilitychange", this.#look);
    this.#look();
  }

  override disconnectedCallback(): void {
    document.removeEventListener("visibilitychange", this.#look);
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const { tone, text } = verdict(this.status);
    const able = this.#able.value;
    if (able?.simulated) {
      // First, because a narrow screen cuts the end off.
      return html`<span class="badge dot caution" role="status"
        >${aboutStrings().simulated} · <span class="truncate">${text}</span></span
      >`;
    }
    return html`<span class="badge dot ${tone}" role="status"
      >${text}${able?.model ? html` · <span class="truncate">${able.model}</span>` : nothing}</span
    >`;
  }

  readonly #look = (): void => {
    if (document.hidden) return;
    serviceStatus().then(
      (status) => {
        this.status = status;
      },
      () => {
        this.status = null; // the shell shows the error
      },
    );
  };
}

function verdict(status: ServiceStatus | null): GateDecision {
  const t = aboutStrings();
  if (status === null) return { tone: "", text: t.unknown };
  const places = status.slots_total - status.slots_used;
  if (status.slots_total === 0 && status.loading_workers > 0) {
    return { tone: "caution", text: t.loading };
  }
  if (status.slots_total === 0) return { tone: "danger", text: t.down };
  if (places > 0 && status.queue_length === 0) return { tone: "good", text: t.free(places) };
  return { tone: "caution", text: t.full(status.queue_length) };
}
