import "swagger-ui-dist/swagger-ui.css";

/** The HTTP API, from the edge's own description. The viewer is large, so it loads after the page. */
const { default: SwaggerUIBundle } = await import("swagger-ui-dist/swagger-ui-es-bundle.js");

SwaggerUIBundle({
  url: "/openapi.json",
  domNode: document.getElementById("api"),
  deepLinking: true,
  validatorUrl: null,
});
