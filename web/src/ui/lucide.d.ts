declare module "lucide/dist/esm/icons/*.mjs" {
  const shape: readonly (readonly [tag: string, attributes: Readonly<Record<string, string>>])[];
  export default shape;
}
