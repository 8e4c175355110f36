// Drives the report in a browser: made-up recordings first, then the demo's real one where it has been made.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch } from "../browser.mjs";
import { access } from "./access.mjs";
import { code } from "./code.mjs";
import { found } from "./found.mjs";
import { scenarios } from "./scenarios.mjs";
import { viewed } from "./view.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../../..");
const out = join(here, "../out");
mkdirSync(out, { recursive: true });

function generate(name, slices, kind) {
  const file = join(out, `${name}.html`);
  // Without -p, as the command was built: for one crate alone cargo asks for fewer features, and compiles all below it again.
  const cargo = ["cargo", "run", "--quiet", "--locked", "--example", "bench_html", "--"];
  // BENCH_HTML: the example, built before.
  const [program, ...args] = process.env.BENCH_HTML ? [process.env.BENCH_HTML] : cargo;
  execFileSync(program, [...args, file, String(slices), kind], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  return file;
}

const files = { demo: generate("demo", 3000, "demo"), flat: generate("flat", 1_000_000, "flat"), pair: generate("pair", 3000, "pair"), plan: generate("plan", 3000, "plan"), code: generate("code", 10_000, "code"), code60: generate("code60", 60_000, "code60"), codepair: generate("codepair", 10_000, "codepair") };
const real = resolve(process.env.KASURI_REPORT ?? join(root, "target/demo/quake.html"));
if (existsSync(real)) files.real = real;
else if (process.env.CI) throw new Error(`no real recording at ${real}`);
else console.log(`skipped: no real recording at ${real} (make demo makes one)`);

// A recording made with the lock probe.
const locks = resolve(process.env.KASURI_LOCKS_REPORT ?? join(root, "target/test/locks.html"));
if (existsSync(locks)) files.locks = locks;
else if (process.env.CI) throw new Error(`no recording of locks at ${locks}`);
else console.log(`skipped: no recording of locks at ${locks} (make test-viewer makes one)`);

// What `kasuri view` serves: the same recording, by the command itself.
const kasuri = resolve(process.env.KASURI ?? join(root, "target/release/kasuri"));
const recording = resolve(process.env.KASURI_RECORDING ?? join(root, "tests/golden/kasuri/mix.kasuri"));
if (existsSync(kasuri)) files.recording = recording;
else if (process.env.CI) throw new Error(`no command at ${kasuri}`);
else console.log(`skipped: no command at ${kasuri} (make rust builds one)`);

const browser = await launch();

/** Runs a scenario on a page of its own; the error that it ended with, if any. */
async function attempt({ name, file, theme, size, run }) {
  const page = await browser.newPage({ viewport: size ?? { width: 1440, height: 900 }, colorScheme: theme ?? "light" });
  page.setDefaultTimeout(60_000);
  const trouble = [];
  const allowed = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") trouble.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => trouble.push(`page: ${error.stack}`));
  page.on("request", (request) => {
    if (!/^(file|data|blob):/.test(request.url()) && !allowed.some((address) => request.url().startsWith(address))) trouble.push(`network: ${request.url()}`);
  });
  const kit = {
    page,
    trouble,
    shot: (what) => page.screenshot({ path: join(out, `${what}.png`) }),
    out: (name) => join(out, name),
    kasuri,
    recording,
    /** From now on the page may ask what begins with `address`. */
    allow: (address) => void allowed.push(address),
    open: async (fragment = "") => {
      await page.goto(pathToFileURL(files[file]).href + fragment);
      await page.waitForFunction(() => window.kasuri?.times.ready !== undefined || window.kasuri?.error);
    },
    // `complete` is the last frame's: one that is asked for and not drawn yet may want more.
    settled: () => page.waitForFunction(() => window.kasuri.views.every((app) => !app.stage.asked && app.stage.complete && !app.recording.busy)),
    view: () => page.evaluate(() => ({ ...window.kasuri.views[0].state.view })),
    html: () => readFileSync(files[file], "utf8"),
    bytes: () => statSync(files[file]).size,
  };
  try {
    await run(kit);
    if (trouble.length > 0) throw new Error(trouble.join("\n"));
    return undefined;
  } catch (error) {
    await kit.shot(`failed-${name}`).catch(() => undefined);
    return error;
  } finally {
    await page.close();
  }
}

// A scenario that fails is run again, twice at most; that it passed then is said.
const TRIES = 3;
let failed = 0;
// ONLY: scenarios whose name has this text.
for (const scenario of [...scenarios, ...code, ...access, ...found, ...viewed]) {
  const { name, file } = scenario;
  if (!files[file] || !name.includes(process.env.ONLY ?? "")) continue;
  let tries = 1;
  let error = await attempt(scenario);
  for (; error && tries < TRIES; tries++) {
    console.log(`again: ${name}\n${error.stack ?? error}`);
    error = await attempt(scenario);
  }
  if (!error) console.log(tries === 1 ? `ok ${name}` : `flaky ${name}`);
  else {
    failed++;
    console.log(`not ok ${name}\n${error.stack ?? error}`);
  }
}
await browser.close();
if (failed > 0) console.log(`${failed} failed`);
// Also where a try that failed left a server that still listens: node would wait for it for ever.
process.exit(failed > 0 ? 1 : 0);
