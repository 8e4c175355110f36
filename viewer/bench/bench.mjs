// Opens reports of made-up recordings, and one that kasuri view serves, and pans and zooms them; leaves target/bench/viewer.json and
// prints a table. VIEW_EVENTS: events of the served recording (10 million; 0: none).
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, release, arch } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { launch } from "../tests/browser.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const dir = join(root, "target/bench");
mkdirSync(dir, { recursive: true });
const RUNS = 5;
const FRAMES = 120;

function generate(slices) {
  const file = join(dir, `viewer-${slices}.html`);
  // Without -p, as the command was built: for one crate alone cargo asks for fewer features, and compiles all below it again.
  const cargo = ["cargo", "run", "--quiet", "--release", "--locked", "--example", "bench_html", "--"];
  // BENCH_HTML: the example, built before.
  const [program, ...args] = process.env.BENCH_HTML ? [process.env.BENCH_HTML] : cargo;
  return JSON.parse(execFileSync(program, [...args, file, String(slices), "flat"], { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }));
}

/** A recording of `events` events, half of them the scheduler's, half annotations; and `kasuri view` of it, when it is ready. */
async function serve(events) {
  const file = join(dir, `viewer-${events}.kasuri`);
  const cargo = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "kasuri-cli"];
  // BENCH_RECORDING, KASURI: the example and the command, built before.
  const [make, ...args] = process.env.BENCH_RECORDING ? [process.env.BENCH_RECORDING] : [...cargo, "--example", "bench_recording", "--"];
  if (!existsSync(file)) execFileSync(make, [...args, file, String(events)], { cwd: root, stdio: "ignore" });
  const [kasuri, ...more] = process.env.KASURI ? [process.env.KASURI] : [...cargo, "--bin", "kasuri", "--"];
  const began = performance.now();
  const child = spawn(kasuri, [...more, "view", file], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  const address = await new Promise((done, fail) => {
    child.stdout.once("data", (text) => done(String(text).trim()));
    child.once("exit", (code) => fail(new Error(`kasuri view ended with ${code}`)));
  });
  child.removeAllListeners("exit");
  return { address, child, file, start: (performance.now() - began) / 1000 };
}

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const spread = (values) => [Math.min(...values), Math.max(...values)];

/** ms until the report is there, counted by the page itself from the start of loading. */
async function opening(browser, url) {
  const times = [];
  for (let run = 0; run < RUNS; run++) {
    const page = await browser.newPage({ viewport: { width: 1920, height: 1080 } });
    await page.goto(url);
    await page.waitForFunction(() => window.kasuri?.times.ready);
    times.push(await page.evaluate(() => window.kasuri.times));
    await page.close();
  }
  return times;
}

/** Moves the view once a frame; ms between frames and ms of script in each. */
async function motion(page, kind, share) {
  return page.evaluate(
    ({ kind, share, frames }) =>
      new Promise((resolve) => {
        const [app] = window.kasuri.views;
        const { length } = app.recording;
        const gaps = [];
        const script = [];
        let last = 0;
        let n = 0;
        const step = (now) => {
          if (n > 0) {
            gaps.push(now - last);
            script.push(app.stage.frameMs);
          }
          last = now;
          if (n === frames) return resolve({ gaps, script });
          const part = n++ / frames;
          const width = kind === "zoom" ? length * 10 ** (-4 * part) : length * share;
          const from = kind === "zoom" ? length * 0.4 - width * 0.4 : (length - width) * (0.3 + (kind === "pan" ? part * share : 0));
          app.state.view.t0 = from;
          app.state.view.t1 = from + width;
          app.stage.draw();
          requestAnimationFrame(step);
        };
        requestAnimationFrame(step);
      }),
    { kind, share, frames: FRAMES },
  );
}

const MOTIONS = [
  ["pan_half", "pan", 0.5],
  ["zoom_10000x", "zoom", 1],
  ["pan_1pct", "pan", 0.01],
  ["pan_1pct_again", "pan", 0.01],
  ["pan_0.02pct", "pan", 0.0002],
];

/** Opens a page, and pans and zooms it. */
async function measure(browser, name, size, url, goals) {
  const opened = await opening(browser, url);
  const seconds = (key) => opened.map((times) => times[key] / 1000);
  add(`${name}.first_picture_${size}_s`, median(seconds("first")), "s", seconds("first"), goals?.first);
  add(`${name}.open_${size}_s`, median(seconds("ready")), "s", seconds("ready"), goals?.ready);
  const page = await browser.newPage({ viewport: { width: 1920, height: 1080 } });
  await page.goto(url);
  await page.waitForFunction(() => window.kasuri?.times.ready);
  const all = [];
  for (const [motionName, kind, share] of MOTIONS) {
    const { gaps, script } = await motion(page, kind, share);
    all.push(...gaps);
    const sorted = [...script].sort((a, b) => a - b);
    add(`${name}.${motionName}_${size}_frame_ms`, median(gaps), "ms", gaps, "<= 16.7 ms");
    add(`${name}.${motionName}_${size}_script_ms`, median(script), "ms", [sorted[0], sorted[Math.floor(sorted.length * 0.95)]]);
  }
  const worst = [...all].sort((a, b) => a - b);
  add(`${name}.worst_frame_${size}_ms`, worst.at(-1), "ms", [worst[Math.floor(worst.length * 0.99)], worst.at(-1)], goals?.worst);
  const fps = 1000 / (all.reduce((sum, gap) => sum + gap, 0) / all.length);
  add(`${name}.fps_${size}`, fps, "frames/s", [1000 / Math.max(...all), 1000 / Math.min(...all)], ">= 59 frames/s");
  await page.close();
}

const results = [];
const add = (name, value, unit, values, goal) => {
  results.push({ name, value: Number(value.toPrecision(4)), unit, spread: spread(values).map((v) => Number(v.toPrecision(4))), ...(goal && { goal }) });
};

const made = { "1m": generate(1_000_000), "10m": generate(10_000_000) };
const browser = await launch();
for (const [size, facts] of Object.entries(made)) {
  const big = size === "10m";
  add(`report.write_${size}_s`, median(facts.write_s), "s", facts.write_s, big && "<= 5 s");
  add(big ? "report.html_bytes_per_slice" : "report.html_bytes_per_slice_1m", facts.bytes_per_slice, "bytes", [facts.bytes_per_slice], "<= 6 bytes");
  await measure(browser, "viewer", size, pathToFileURL(facts.file).href, big && { ready: "<= 0.6 s", worst: "<= 33 ms" });
}
const events = Number(process.env.VIEW_EVENTS ?? 10_000_000);
if (events > 0) {
  const { address, child, file, start } = await serve(events);
  const size = `${events / 1e6}m`;
  add(`view.start_${size}_events_s`, start, "s", [start]);
  await measure(browser, "view", `${size}_events`, address, { first: "<= 1 s", ready: "<= 1 s", worst: "<= 33 ms" });
  const ended = new Promise((done) => child.once("exit", done));
  child.kill("SIGINT");
  await ended;
  rmSync(file);
}
await browser.close();

// Of this process, not in the browser: the samples of a report need not be made up for it.
const bundle = join(dir, "flame.mjs");
await build({ entryPoints: [join(root, "viewer/bench/flame.ts")], bundle: true, format: "esm", platform: "node", outfile: bundle });
const { ManySamples } = await import(pathToFileURL(bundle).href);
const flame = new ManySamples(1_000_000);
const times = Array.from({ length: 9 }, () => {
  const began = process.cpuUsage().user;
  flame.addUp();
  return (process.cpuUsage().user - began) / 1000;
});
add("viewer.flame_graph_1m_samples_ms", median(times), "ms of CPU", times, "<= 50 ms");

const commit = existsSync(join(root, ".git")) ? execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" }).trim() : "";
const model = /model name\s*:\s*(.*)/.exec(existsSync("/proc/cpuinfo") ? readFileSync("/proc/cpuinfo", "utf8") : "")?.[1] ?? "";
const machine = { cpu_model: model, n_cpus: cpus().length, kernel: release(), machine: arch() };
const report = { machine, commit, command: "make bench-viewer", results };
writeFileSync(join(dir, "viewer.json"), `${JSON.stringify(report, null, 1)}\n`);
for (const { name, value, unit, spread: [low, high], goal } of results) {
  console.log(`${name.padEnd(36)} ${String(value).padStart(9)} ${unit.padEnd(9)} [${low} .. ${high}]${goal ? `  goal ${goal}` : ""}`);
}
