import { siteUrl } from "../../api/site.ts";
import "swagger-ui-dist/swagger-ui.css";

/** Swagger UI takes its colours from a class, not from the scheme of the browser. */
const dark = matchMedia("(prefers-color-scheme: dark)");
const adopt = (): void => {
  document.documentElement.classList.toggle("dark-mode", dark.matches);
};
dark.addEventListener("change", adopt);
adopt();

/** The HTTP API, from the edge's own description. The viewer is large, so it loads after the page. */
const { default: SwaggerUIBundle } = await import("swagger-ui-dist/swagger-ui-es-bundle.js");

SwaggerUIBundle({
  url: siteUrl("/openapi.json"),
  domNode: document.getElementById("api"),
  deepLinking: true,
  validatorUrl: null,
});
