import { html } from "lit";
import { ref } from "lit/directives/ref.js";
import { siteUrl } from "../../api/site.ts";
import { defineStrings } from "../../i18n/language.ts";
import { theme } from "../../shell/header.ts";
import { mount } from "../../shell/shell.ts";
import "./page.css";

/** Swagger UI takes its icons from a class, not from the scheme of the page. */
const dark = matchMedia("(prefers-color-scheme: dark)");
const adopt = (): void => {
  const isDark = theme.value === "system" ? dark.matches : theme.value === "dark";
  document.documentElement.classList.toggle("dark-mode", isDark);
};
dark.addEventListener("change", adopt);
theme.subscribe(adopt);
adopt();

const strings = defineStrings(
  {
    title: "API",
    description: "The HTTP and WebSocket API of this server.",
    lead: "Routes by task. Try them here, or load the description into your tools:",
    realtime: "messages of the realtime protocol",
  },
  {
    title: "API",
    description: "此服务器的 HTTP 和 WebSocket API。",
    lead: "按任务分组的接口。可以在这里试用，也可以将描述文件导入您的工具：",
    realtime: "实时协议的消息",
  },
);

/** The API, from the edge's own description, with the header of all pages. */
mount({
  title: () => strings().title,
  description: () => strings().description,
  content: () => html`<div class="page-head">
      <div>
        <h1>${strings().title}</h1>
        <p>
          ${strings().lead} <a href=${siteUrl("/openapi.json")}>openapi.json</a>,
          <a href=${siteUrl("/v1/realtime/schema.json")}>${strings().realtime}</a>
        </p>
      </div>
    </div>
    <div class="api" ${ref(showOnce)}></div>`,
});

let shown = false;

/** The viewer is large, so it loads after the page. */
function showOnce(element: Element | undefined): void {
  if (shown || element === undefined) return;
  shown = true;
  void import("swagger-ui-dist/swagger-ui-es-bundle.js").then(({ default: SwaggerUIBundle }) =>
    SwaggerUIBundle({
      url: siteUrl("/openapi.json"),
      domNode: element,
      deepLinking: true,
      validatorUrl: null,
      defaultModelsExpandDepth: -1,
    }),
  );
}
