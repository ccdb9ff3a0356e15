/** The part of Swagger UI that the page uses; the package has no types. */
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  interface Options {
    url: string;
    domNode: HTMLElement | null;
    deepLinking: boolean;
    /** null: never send the description to another server. */
    validatorUrl: null;
  }
  export default function SwaggerUIBundle(options: Options): void;
}
