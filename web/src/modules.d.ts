/** Modules of packages that have no types. */

declare module "lucide/dist/esm/icons/*.mjs" {
  const shape: readonly (readonly [tag: string, attributes: Readonly<Record<string, string>>])[];
  export default shape;
}

/** The part of Swagger UI that the page uses. */
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  interface Options {
    url: string;
    domNode: Element | null;
    deepLinking: boolean;
    /** null: never send the description to another server. */
    validatorUrl: null;
    /** -1: no list of all schemas. */
    defaultModelsExpandDepth: -1;
  }
  export default function SwaggerUIBundle(options: Options): void;
}
