// build.mjs puts a document's text where it is imported.
declare module "*.md" {
  const text: string;
  export default text;
}
