// `kasuri view`: the same page, which asks a server for what it shows.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

/** A server of `recordings`, and the address that it prints. */
async function serve(kasuri, recordings) {
  const child = spawn(kasuri, ["view", ...recordings], { stdio: ["ignore", "pipe", "ignore"] });
  const address = await new Promise((done, fail) => {
    child.stdout.once("data", (text) => done(String(text).trim()));
    child.once("exit", (code) => fail(new Error(`kasuri view ended with ${code}`)));
  });
  child.removeAllListeners("exit");
  const ended = new Promise((done) => child.once("exit", (code) => done(code)));
  const end = () => {
    child.kill("SIGINT");
    return ended;
  };
  return { address, end };
}

const ready = async (page) => {
  await page.waitForFunction(() => window.kasuri?.times.ready !== undefined || window.kasuri?.error);
  assert.equal(await page.evaluate(() => window.kasuri.error), undefined);
};

/** Runs `then` with the page of a server, which may be asked; Ctrl-C ends it. */
function withServer(recordings, then) {
  return async (kit) => {
    const server = await serve(kit.kasuri, recordings(kit));
    kit.allow(server.address);
    try {
      await kit.page.goto(server.address);
      await ready(kit.page);
      await then(kit, server);
    } finally {
      // A page may ask for more at any time, and would complain that nobody answers.
      await kit.page.goto("about:blank");
      assert.equal(await server.end(), 0, "Ctrl-C ends it without an error");
    }
  };
}

/** A picture of the page when nothing on it changes any more: the overview is there; the address is written, and sums of the view follow, a moment after the view rests. */
async function atRest(page, settled) {
  await page.evaluate(() => Promise.all(window.kasuri.views.map((app) => app.loaded)));
  let picture;
  for (let same = 0; same < 3; ) {
    await page.waitForTimeout(300);
    await settled();
    const now = await page.screenshot();
    same = picture?.equals(now) ? same + 1 : 0;
    picture = now;
  }
  return picture;
}

const one = ({ recording }) => [recording];

export const viewed = [
  {
    name: "what is served looks like the report, pixel by pixel, whole and zoomed",
    file: "recording",
    run: withServer(one, async ({ page, kasuri, recording, settled, shot, out }, { address }) => {
      const html = out("served-as-file.html");
      execFileSync(kasuri, ["report", "-o", html, recording], { stdio: "ignore" });
      const length = await page.evaluate(() => window.kasuri.views[0].recording.length);
      for (const [from, to] of [[0, 1], [0.3, 0.42], [0.5, 0.5001]]) {
        const pictures = [];
        for (const url of [address, pathToFileURL(html).href]) {
          await page.goto("about:blank");
          await page.goto(url);
          await ready(page);
          await page.evaluate(([t0, t1]) => window.kasuri.views[0].navigation.show([t0, t1]), [from * length, to * length]);
          await settled();
          await page.mouse.move(0, 0);
          pictures.push(await atRest(page, settled));
        }
        if (pictures[0].equals(pictures[1])) continue;
        const kept = ["served", "file"].map((name) => out(`differs-${name}.png`));
        kept.forEach((path, i) => writeFileSync(path, pictures[i]));
        assert.fail(`the pictures of ${from}..${to} differ: ${kept.join(", ")}`);
      }
      await page.goto("about:blank");
      await page.goto(address);
      await ready(page);
      await settled();
      await shot("served");
    }),
  },
  {
    name: "served: select, zoom, search and details work, and only the server is asked",
    file: "recording",
    run: withServer(one, async ({ page, settled, shot }) => {
      const name = await page.evaluate(async () => {
        const [app] = window.kasuri.views;
        const row = app.recording.index.names.reduce((a, b) => (b.count > a.count ? b : a));
        await app.selection.selectNumber(row.line, row.item);
        return app.recording.text(row.name);
      });
      await page.waitForSelector(".sides");
      assert((await page.locator(".panel").innerText()).includes(name), `the details do not name ${name}`);
      await page.keyboard.press("Enter");
      await settled();
      await page.fill("input[type=search]", name);
      await page.waitForFunction(() => window.kasuri.views[0].state.found !== undefined);
      await settled();
      await shot("served-selected");
      assert.equal(await page.evaluate(() => window.kasuri.views[0].stage.complete), true);
    }),
  },
  {
    name: "served: two recordings in one page",
    file: "recording",
    run: withServer(({ recording }) => [recording, recording], async ({ page, settled }) => {
      await settled();
      assert.equal(await page.evaluate(() => window.kasuri.views.length), 2);
    }),
  },
  {
    name: "served: when the server ends the page says so, and goes on with what it has",
    file: "recording",
    run: async ({ kasuri, recording, page, allow, settled, shot, trouble }) => {
      const server = await serve(kasuri, [recording]);
      allow(server.address);
      await page.goto(server.address);
      await ready(page);
      await settled();
      assert.equal(await server.end(), 0);
      await page.evaluate(() => {
        const [app] = window.kasuri.views;
        const line = app.recording.lines.find((line) => line.nUnits > 0 && !app.recording.peek(line, line.nUnits - 1));
        return app.recording.part(line ? line.block[line.nUnits - 1] : 0, 0).catch(() => undefined);
      });
      await page.waitForSelector(".gone[role=alert]");
      assert.match(await page.locator(".gone").innerText(), /kasuri view has ended/);
      await shot("served-gone");
      // The complaints are the browser's, about a server that does not answer.
      assert(trouble.every((line) => /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_CONTENT_LENGTH_MISMATCH|ERR_EMPTY_RESPONSE|kasuri view has ended/.test(line)), trouble.join("\n"));
      trouble.length = 0;
    },
  },
  {
    name: "served: a page of another origin learns nothing, even with the address",
    file: "recording",
    run: withServer(one, async ({ page, allow, trouble }, { address }) => {
      const other = createServer((_, response) => {
        response.setHeader("Content-Type", "text/html");
        response.end("<!doctype html><title>another page</title>");
      });
      await new Promise((done) => other.listen(0, "127.0.0.1", done));
      const there = `http://127.0.0.1:${other.address().port}/`;
      allow(there);
      await page.goto(there);
      const learned = await page.evaluate(async (address) => {
        const fails = (what) => what.then(() => "read", () => "failed");
        const loads = (tag, attributes) => new Promise((done) => document.body.append(Object.assign(document.createElement(tag), { onload: () => done("loaded"), onerror: () => done("failed"), ...attributes })));
        const opaque = await window.fetch(`${address}0/index`, { mode: "no-cors" }).then((r) => r.type, () => "failed");
        const frame = Object.assign(document.createElement("iframe"), { src: address });
        document.body.append(frame);
        await new Promise((done) => (frame.onload = done));
        // Of another origin: there is no document to be had.
        const inside = frame.contentDocument?.body.innerHTML ?? "none";
        return { fetch: await fails(window.fetch(`${address}0/index`)), opaque, script: await loads("script", { src: `${address}0/index` }), image: await loads("img", { src: address }), inside };
      }, address);
      other.close();
      assert.deepEqual(learned, { fetch: "failed", opaque: "failed", script: "failed", image: "failed", inside: "none" });
      trouble.length = 0;
    }),
  },
];
