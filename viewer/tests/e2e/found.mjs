// What the command prints about a trace, looked up in its page: a program that is chosen there, the longest wake-up, stray time stamps.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** ftrace's text of 39 processes, none of which is said to be the program. */
const TEXT = join(dirname(fileURLToPath(import.meta.url)), "../../../tests/golden/ftrace_text/trace.txt");

/** Opens the report of `trace`, at `fragment`. */
async function openReport({ kasuri, page, out }, trace, name, fragment = "") {
  const html = out(name);
  execFileSync(kasuri, ["report", "-o", html, trace], { stdio: "ignore" });
  await page.goto("about:blank");
  await page.goto(pathToFileURL(html).href + fragment);
  await page.waitForFunction(() => window.kasuri?.times.ready !== undefined || window.kasuri?.error);
  assert.equal(await page.evaluate(() => window.kasuri.error), undefined);
}

/** Titles of the processes whose threads show, from the top; and the headings of the others. */
const shown = (page) =>
  page.evaluate(() => {
    const [{ state }] = window.kasuri.views;
    const tracks = state.layout.tracks.filter((track) => track.kind === "process" || track.title === "Other processes" || track.title.endsWith("small processes"));
    return tracks.map((track) => track.title);
  });

/** Processes of the program, those that fold into one heading too. */
const own = (titles) => titles.filter((title) => title !== "Other processes").reduce((sum, title) => sum + (Number(/^(\d+) small processes$/.exec(title)?.[1]) || 1), 0);

export const found = [
  {
    name: "a trace that names no program: one is chosen on the page, its rows stand first, and the command for its account is named",
    file: "recording",
    run: async (kit) => {
      const { page, settled, shot } = kit;
      await openReport(kit, TEXT, "nobody.html");
      await settled();
      const box = page.locator("select.program");
      const offered = await box.locator("option").allInnerTexts();
      assert.equal(offered[0], "All 39 processes");
      assert.match(offered[1], /^rustc \(8 processes\), 37\.\d+ ms on CPUs$/, "the busiest is first");
      assert.equal(own(await shown(page)), 39);
      await shot("program-none");
      await box.selectOption({ index: 1 });
      await settled();
      const titles = await shown(page);
      assert.equal(titles.length, 9, `eight processes and the heading of the others: ${titles}`);
      assert(titles.slice(0, 8).every((title) => title.startsWith("rustc")) && titles[8] === "Other processes", String(titles));
      const command = `kasuri report --process rustc ${TEXT}`;
      for (const tab of ["Summary", "Account"]) {
        await page.getByRole("tab", { name: tab, exact: true }).click();
        assert.equal(await page.locator(".which-program pre").innerText(), command, tab);
      }
      await page.getByRole("tab", { name: "Threads", exact: true }).click();
      assert.match(await page.locator(".panel").innerText(), /Threads of the program/);
      await shot("program-chosen");
      // The address keeps the choice.
      await page.waitForFunction(() => location.hash.includes("program=rustc"));
      await page.reload();
      await page.waitForFunction(() => window.kasuri?.times.ready !== undefined);
      await settled();
      assert.equal((await shown(page)).length, 9);
      assert.equal(await box.inputValue(), "rustc");
      await box.selectOption("");
      await settled();
      assert.equal(own(await shown(page)), 39);
    },
  },
  {
    name: "a recording that names its program offers no other",
    file: "recording",
    run: async (kit) => {
      await openReport(kit, kit.recording, "named.html");
      await kit.settled();
      assert.equal(await kit.page.locator("select.program, .which-program").count(), 0);
    },
  },
  {
    name: "the account that opens first is of the headline's time, in its words; a class without samples leads nowhere",
    file: "recording",
    run: async (kit) => {
      const { kasuri, page, recording, settled, shot } = kit;
      const { account } = JSON.parse(execFileSync(kasuri, ["stat", "--json", recording], { encoding: "utf8" }));
      await openReport(kit, recording, "account.html");
      await settled();
      await page.getByRole("tab", { name: "Account", exact: true }).click();
      await page.waitForSelector(".panel-body .headline");
      assert.equal(await page.locator(".panel-body .heading h2").innerText(), "Account of the whole recording");
      const got = Number((await page.locator(".panel-body .headline").innerText()).split(" ")[0]);
      assert(Math.abs(got - account.got_cpus) < 0.006, `${got}, not ${account.got_cpus}`);
      const [shown, classes] = await page.evaluate(async () => {
        const [{ account, recording }] = window.kasuri.views;
        const { causes, classes } = recording.index.account;
        const sums = await account.sums(0, recording.length, undefined, () => false);
        const pieces = await window.kasuri.views[0].pieces.read();
        const withCode = new Set(pieces.flatMap(({ of, code }) => [...of].filter((_, i) => code[i] > 1)));
        return [causes.map(({ text }, i) => ({ text, ns: sums.causes[i] })), classes.map(([key, name, , , has], c) => ({ key, name, has, sampled: withCode.has(c), ns: sums.classes[c] }))];
      });
      // To the nanosecond, row by row: what several processes of a name took is one row.
      assert.deepEqual(shown.slice(0, account.causes.length).map(({ ns }) => ns), account.causes.map(({ ns }) => ns));
      const taken = account.causes.filter((cause) => cause.class === "interference" && cause.process !== "");
      for (const { process } of taken) assert(shown.some(({ text }) => text === `process ${process}`), `${process} in ${JSON.stringify(shown)}`);
      for (const { name, has, sampled, ns } of classes) {
        assert.equal(has, sampled, name);
        assert.equal(await page.locator(".panel-body table").first().getByRole("button", { name, exact: true }).count(), has && ns > 0 ? 1 : 0, name);
      }
      await shot("account-first");
    },
  },
  {
    name: "the buttons stand in one line of a narrow window",
    file: "recording",
    size: { width: 1000, height: 800 },
    run: async (kit) => {
      const html = kit.out("narrow.html");
      execFileSync(kit.kasuri, ["report", "--title", "make -C a/long/path -j4 all install", "-o", html, kit.recording], { stdio: "ignore" });
      await kit.page.goto(pathToFileURL(html).href);
      await kit.page.waitForFunction(() => window.kasuri?.times.ready !== undefined);
      const tops = await kit.page.locator(".bar > button, .bar > .menu > summary").evaluateAll((all) => all.filter((one) => one.offsetParent).map((one) => Math.round(one.getBoundingClientRect().top)));
      assert.equal(new Set(tops).size, 1, `tops ${tops}`);
    },
  },
  {
    name: "the fragment that stat prints leads to the longest wake-up",
    file: "recording",
    run: async (kit) => {
      const { kasuri, page, recording, settled, shot } = kit;
      const text = execFileSync(kasuri, ["stat", "--section", "run", recording], { encoding: "utf8", env: { ...process.env, COLUMNS: "300" } });
      const [fragment, from, to] = /#t=(\d+)~(\d+)/.exec(text);
      const { worst_wakeup: worst } = JSON.parse(execFileSync(kasuri, ["stat", "--json", recording], { encoding: "utf8" }));
      await openReport(kit, recording, "wakeup.html", fragment);
      await settled();
      const seen = await page.evaluate(async (tid) => {
        const [{ state, recording }] = window.kasuri.views;
        const { t0, t1 } = state.view;
        const thread = recording.index.threads.findIndex((row) => row.tid === tid);
        // When the thread begins to run (1) after it was ready (2), in view.
        const line = recording.lines.find((line) => line.kind === 1 && line.owner === thread);
        const runs = [];
        for (let u = 0; line && u < line.nUnits; u++) {
          const { start, value } = await recording.unit(line, u);
          for (let i = 1; i < start.length; i++) if (value[i] === 1 && value[i - 1] === 2 && start[i] >= t0 && start[i] <= t1) runs.push(start[i]);
        }
        return { t0, t1, runs };
      }, worst.tid);
      assert.deepEqual([Math.round(seen.t0), Math.round(seen.t1)], [Number(from), Number(to)]);
      assert(Number(from) < worst.at_ns && seen.runs.includes(worst.at_ns + worst.latency_ns), `it runs at ${seen.runs}, not ${worst.latency_ns} ns after ${worst.at_ns}`);
      await shot("longest-wakeup");
    },
  },
  {
    name: "a mark 22 minutes before the rest: the view begins without it, says so, and can show it",
    file: "recording",
    run: async (kit) => {
      const { page, out, settled, shot } = kit;
      const lines = readFileSync(TEXT, "utf8").split("\n");
      const first = lines.findIndex((line) => line !== "" && !line.startsWith("#"));
      const [, seconds] = /(\d+)\.\d+:/.exec(lines[first]);
      lines.splice(first, 0, `  app-77  [000] .....  ${Number(seconds) - 22 * 60}.781838: tracing_mark_write: stray`);
      const trace = out("stray.txt");
      writeFileSync(trace, lines.join("\n"));
      await openReport(kit, trace, "stray.html");
      await settled();
      const width = () => page.evaluate(() => window.kasuri.views[0].state.view.t1 - window.kasuri.views[0].state.view.t0);
      assert((await width()) < 0.1e9, `the view is ${await width()} ns wide`);
      const note = page.locator(".banner", { hasText: "time stamps" });
      assert.match(await note.innerText(), /All but a few time stamps stand within 52\.\d+ ms of the 1320(\.\d+)? s/);
      await shot("stray");
      await note.getByText("show all of it").click();
      await settled();
      assert((await width()) > 1000e9, `the view is ${await width()} ns wide`);
    },
  },
];
