// Builds dist/viewer.html, the template that the Rust side fills with a recording; with --tests, the unit tests too.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const common = { bundle: true, write: false, target: ["es2022"], legalComments: "none", logLevel: "error", loader: { ".md": "text" } };

async function bundle(entry, options) {
  const result = await build({ ...common, entryPoints: [join(here, entry)], ...options });
  return result.outputFiles[0].text.trimEnd();
}

/** Replaces the one occurrence of `mark`; a template without it, or with two, is a mistake. */
function place(text, mark, value) {
  const parts = text.split(mark);
  if (parts.length !== 2) throw new Error(`template: ${mark} stands there ${parts.length - 1} times, not once`);
  return parts.join(value);
}

/**
 * What a report may do: run this one script and workers made of it, style itself, show pictures of its own. No network, no
 * plugin, no other script, eval or frame; nothing moves where links and forms lead. Tags with data are no scripts.
 */
function policy(js) {
  const hash = createHash("sha256").update(js).digest("base64");
  const rules = {
    "default-src": "'none'",
    "script-src": `'sha256-${hash}'`,
    "worker-src": "blob:",
    "style-src": "'unsafe-inline'",
    "img-src": "data: blob:",
    "base-uri": "'none'",
    "form-action": "'none'",
  };
  return Object.entries(rules).map((rule) => rule.join(" ")).join("; ");
}

/** Writes a file unless it holds that text already: a new date alone makes cargo compile what embeds it again. */
function writeChanged(path, text) {
  if (existsSync(path) && readFileSync(path, "utf8") === text) return;
  writeFileSync(path, text);
}

async function page() {
  // The workers' program is text inside the page's: from file:// a worker can only be started from a blob.
  const worker = await bundle("src/worker.ts", { format: "iife", minify: true });
  const js = await bundle("src/main.ts", { format: "iife", minify: true, define: { KASURI_WORKER: JSON.stringify(worker) } });
  const css = await bundle("src/style.css", { minify: true });
  for (const [what, text] of [["script", js], ["style", css]]) {
    if (new RegExp(`</${what}`, "i").test(text)) throw new Error(`the ${what} holds its own end tag`);
  }
  let html = readFileSync(join(here, "src/template.html"), "utf8");
  html = place(html, "/*kasuri:policy*/", policy(js));
  html = place(html, "/*kasuri:css*/", css);
  html = place(html, "/*kasuri:js*/", js);
  for (const mark of ["/*kasuri:more-policy*/", "<!--kasuri:title-->", "<!--kasuri:first-->", "<!--kasuri:rest-->"]) {
    if (html.split(mark).length !== 2) throw new Error(`template: ${mark} must stand there once`);
  }
  mkdirSync(join(here, "dist"), { recursive: true });
  writeChanged(join(here, "dist/viewer.html"), html);
  return { js: js.length, css: css.length };
}

async function tests() {
  const out = join(here, "dist/tests");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  for (const file of readdirSync(join(here, "tests/unit")).filter((name) => name.endsWith(".test.ts"))) {
    const text = await bundle(join("tests/unit", file), { format: "esm", platform: "node", sourcemap: "inline" });
    writeFileSync(join(out, file.replace(/\.ts$/, ".mjs")), text);
  }
}

if (process.argv.includes("--tests")) {
  await tests();
} else {
  const size = await page();
  console.log(`viewer/dist/viewer.html: ${size.js} bytes of script, ${size.css} of style`);
}
