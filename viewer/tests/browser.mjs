// Starting the browser that tests and benchmarks drive.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The browser named by CHROMIUM, or the first chromium or chrome in PATH; undefined: none. */
export function browserPath() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const folders = (process.env.PATH ?? "").split(":");
  const names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}

/** A browser, or the end of the program: a test that cannot run says so, and fails where everything must be there. */
export async function launch() {
  const path = browserPath();
  if (path === undefined) {
    console.log("skipped: no chromium in PATH and CHROMIUM is not set; install chromium");
    process.exit(process.env.CI === "true" ? 1 : 0);
  }
  return chromium.launch({ executablePath: path, args: FLAGS, timeout: 120_000 });
}
