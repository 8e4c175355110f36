// What a person does with a report, and what must then be so.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

/** Where the middle of item `index` of the first line for which `test` holds is on the page. */
async function locate(page, test, index) {
  // The text is run by the debugger: the page itself may make no code of text.
  const line = await page.evaluateHandle(`(() => { const [app] = window.kasuri.views; return app.recording.lines.find((line) => ${test}); })()`);
  return page.evaluate(
    async ({ line, index }) => {
      const [app] = window.kasuri.views;
      app.rows.reveal(line);
      const unit = await app.recording.unit(line, 0);
      const box = app.stage.canvas.getBoundingClientRect();
      const track = [...app.state.layout.pinned, ...app.state.layout.tracks].find((track) => track.rows.some((row) => row.line === line));
      const row = track.rows.find((row) => row.line === line);
      const top = track.pinned ? track.y : app.state.layout.pinnedHeight + track.y - app.state.view.scroll;
      const middle = (unit.start[index] + unit.end[index]) / 2;
      app.navigation.show([middle - 3e6, middle + 3e6]);
      return { x: box.left + app.state.x(middle), y: box.top + 34 + top + row.y + row.height / 2 };
    },
    { line, index },
  );
}

const selected = (page) =>
  page.evaluate(() => {
    const { selected } = window.kasuri.views[0].state;
    return selected && { line: selected.line.ix, item: selected.item, start: selected.start, end: selected.end };
  });

/** Waits until `where` is there `n` times. */
const times = (page, where, n) =>
  page.waitForFunction(([where, n]) => document.querySelectorAll(where).length === n, [where, n]);

/** Waits until the address, which is written a moment after a change, has `part`. */
const addressHas = (page, part) => page.waitForFunction((part) => location.hash.includes(part), part);

const text = (page, where) => page.locator(where).innerText();

export const scenarios = [
  {
    name: "a plan under the recorded rows, coloured by how late tasks started",
    file: "plan",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      const plan = page.locator(".legend-group", { hasText: "Plan" });
      assert.deepEqual((await plan.innerText()).split("\n").filter((word) => word !== "").slice(0, 5), ["Plan", "early", "on time", "late", "very late"]);
      await page.evaluate(() => {
        const [view] = window.kasuri.views;
        const track = view.state.layout.tracks.find((track) => track.title === "planned worker 0");
        view.rows.reveal(track.rows[0].line);
      });
      await settled();
      // From left to right the row has the colours of the legend, in its order.
      const { row, legend, titles } = await page.evaluate(() => {
        const [view] = window.kasuri.views;
        const colours = view.state.colours;
        const { index } = view.recording;
        const tracks = [...view.state.layout.tracks];
        const heading = tracks.findIndex((track) => track.title === "plan: cp on 2 workers");
        const track = tracks.find((track) => track.title === "planned worker 0");
        const line = track.rows[0].line;
        const values = [0, 1, 2, 3].map((late) => index.lateness.find(([, l]) => l === late)[0] * 16);
        const hex = (rgb) => `#${rgb.toString(16).padStart(6, "0")}`;
        const box = view.stage.canvas.getBoundingClientRect();
        const copy = document.createElement("canvas");
        [copy.width, copy.height] = [view.stage.canvas.width, view.stage.canvas.height];
        const pen = copy.getContext("2d", { willReadFrequently: true });
        pen.drawImage(view.stage.canvas, 0, 0);
        const scale = copy.width / box.width;
        const y = (34 + view.state.layout.pinnedHeight + track.y - view.state.view.scroll + track.rows[0].y + 3) * scale;
        const at = (part) => {
          const [r, g, b] = pen.getImageData(Math.round(view.state.x((index.length * (part + 0.9)) / 4) * scale), Math.round(y), 1, 1).data;
          return hex((r << 16) | (g << 8) | b);
        };
        return { row: [0, 1, 2, 3].map(at), legend: values.map((value) => hex(colours.of(line.kind, value))), titles: tracks.slice(heading).map(({ title }) => title) };
      });
      assert.deepEqual(row, legend);
      assert.equal(new Set(row).size, 4);
      assert(titles.includes("planned worker 0"), `the rows stand under their heading: ${titles}`);
      await shot("plan");
    },
  },
  {
    name: "a report can reach no network, run no other code and lead no form or link elsewhere",
    file: "demo",
    run: async ({ page, open, settled, trouble }) => {
      await open();
      await settled();
      assert.deepEqual(trouble, [], "the report itself asks for nothing that is refused");
      // A server that would hear of anything that got out.
      let heard = 0;
      const server = createServer((_, response) => {
        heard++;
        response.end();
      });
      await new Promise((done) => server.listen(0, "127.0.0.1", done));
      const there = `http://127.0.0.1:${server.address().port}/`;
      const rules = ["base-uri", "connect-src", "form-action", "frame-src", "img-src", "object-src", "script-src-attr", "script-src-elem"];
      const refused = await page.evaluate(async ([there, rules]) => {
        const refused = new Set();
        document.addEventListener("securitypolicyviolation", (e) => refused.add(e.effectiveDirective));
        // In a timer: the debugger, in whose call this runs, is free of the page's rules.
        const fails = (what) => new Promise((done) => setTimeout(() => Promise.resolve().then(what).then(() => done("ran"), () => done("failed"))));
        const add = (tag, attributes) => document.body.append(Object.assign(document.createElement(tag), attributes));
        const out = { fetch: await fails(() => window.fetch(there)), file: await fails(() => window.fetch(location.href)), eval: await fails(() => new Function("return 1")()) };
        add("img", { src: `${there}a.png` });
        add("script", { textContent: "window.injected = true" });
        add("script", { src: `${there}a.js` });
        add("iframe", { src: there });
        add("object", { data: there });
        add("base", { href: there });
        add("button", { id: "injected", onclick: null });
        document.getElementById("injected").setAttribute("onclick", "window.injected = true");
        document.getElementById("injected").click();
        const form = document.createElement("form");
        form.action = there;
        document.body.append(form);
        form.submit();
        // Each is told when its loader comes to it, in any order.
        for (let i = 0; i < 200 && !rules.every((rule) => refused.has(rule)); i++) await new Promise((done) => setTimeout(done, 50));
        return { ...out, base: document.baseURI.startsWith("http"), injected: window.injected === true, refused: [...refused].sort() };
      }, [there, rules]);
      assert.deepEqual({ ...refused, refused: undefined }, { fetch: "failed", file: "failed", eval: "failed", base: false, injected: false, refused: undefined });
      for (const rule of rules) {
        assert(refused.refused.includes(rule), `${rule} is not refused: ${refused.refused}`);
      }
      assert(page.url().startsWith("file:"), page.url());
      assert.equal(heard, 0, "nothing went out");
      // The control: the server does hear.
      await page.context().request.get(there);
      assert.equal(heard, 1);
      server.close();
      // Each refusal is an error on the console, and a request that was not sent.
      trouble.length = 0;
    },
  },
  {
    name: "the first view fits the recorded program and needs no network",
    file: "demo",
    run: async ({ page, open, settled, shot, view }) => {
      await open();
      await settled();
      await shot("first-view");
      const { t0, t1 } = await view();
      const length = await page.evaluate(() => window.kasuri.views[0].recording.length);
      assert(t0 <= 0 && t0 > -0.05 * length, `begins at ${t0}`);
      assert(t1 >= length && t1 < 1.05 * length, `ends at ${t1} of ${length}`);
      assert.match(await page.title(), /^\.\/quake --steps 40 - kasuri$/);
      assert.match(await text(page, ".banner.lost summary"), /1.251 events were lost/);
      // What was not recorded is no loss: a note in its tab, and no bar above the chart.
      assert.equal(await page.locator(".banner").count(), 1);
      await page.getByRole("tab", { name: "Recording (1)" }).click();
      assert.match(await text(page, ".panel-body"), /Not in this recording\s+interrupts were not recorded/);
      const lit = await page.evaluate(() => {
        const { canvas } = window.kasuri.views[0].stage;
        const { data } = canvas.getContext("2d").getImageData(0, 60, canvas.width, 200);
        return new Set(new Uint32Array(data.buffer)).size;
      });
      assert(lit > 20, `the chart has ${lit} colours`);
    },
  },
  {
    name: "keys and wheel zoom about the pointer and move",
    file: "demo",
    run: async ({ page, open, view, shot, settled }) => {
      await open();
      const first = await view();
      const box = await page.locator(".canvas").boundingBox();
      await page.mouse.move(box.x + box.width * 0.3, box.y + 120);
      const timeAt = (v) => v.t0 + 0.3 * (v.t1 - v.t0);
      for (let i = 0; i < 6; i++) await page.keyboard.press("w");
      const closer = await view();
      assert(closer.t1 - closer.t0 < (first.t1 - first.t0) / 5, "w zooms in");
      assert(Math.abs(timeAt(closer) - timeAt(first)) < 0.02 * (first.t1 - first.t0), "about the pointer");
      await page.keyboard.press("d");
      const right = await view();
      assert(right.t0 > closer.t0, "d moves right");
      await page.keyboard.press("ArrowLeft");
      assert(Math.abs((await view()).t0 - closer.t0) < 1, "the left arrow moves back");
      await page.keyboard.down("Control");
      await page.mouse.wheel(0, -400);
      await page.keyboard.up("Control");
      // What a wheel does comes when the browser has time for it.
      const width = closer.t1 - closer.t0;
      await page.waitForFunction((width) => window.kasuri.views[0].state.view.t1 - window.kasuri.views[0].state.view.t0 < width, width);
      const wheeled = await view();
      await page.mouse.wheel(0, 300);
      await page.waitForFunction(() => window.kasuri.views[0].state.view.scroll > 100);
      await settled();
      await shot("zoomed");
      await page.mouse.move(box.x + 600, box.y + 200);
      await page.mouse.down();
      await page.mouse.move(box.x + 400, box.y + 200, { steps: 4 });
      await page.mouse.up();
      assert((await view()).t0 > wheeled.t0, "dragging to the left shows what is later");
      await page.keyboard.press("0");
      assert(Math.abs((await view()).t1 - first.t1) < 1, "0 shows everything");
    },
  },
  {
    name: "dragging on the time axis zooms to that part",
    file: "demo",
    run: async ({ page, open, view }) => {
      await open();
      const before = await view();
      const box = await page.locator(".canvas").boundingBox();
      await page.mouse.move(box.x + box.width * 0.25, box.y + 10);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.5, box.y + 12, { steps: 4 });
      await page.mouse.up();
      const after = await view();
      const share = (after.t1 - after.t0) / (before.t1 - before.t0);
      assert(Math.abs(share - 0.25) < 0.02, `a quarter was marked, ${share} shows`);
    },
  },
  {
    name: "a click on a slice shows its details, and its neighbours of the same name can be reached",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      const at = await locate(page, "line.kind === 2 && line.depth === 1", 8);
      await page.mouse.move(at.x, at.y);
      await page.waitForSelector(".tooltip:not([hidden])");
      await page.mouse.click(at.x, at.y);
      await page.waitForFunction(() => document.querySelector(".side h3"));
      await shot("slice");
      assert.equal(await text(page, ".heading h2"), "time step");
      const facts = await text(page, ".facts-list");
      for (const part of ["Start", "Duration", "Self time", "quake/0 (5000)", "Inside", "solve"]) {
        assert(facts.includes(part), `details lack ${part}: ${facts}`);
      }
      const sides = await text(page, ".sides");
      for (const part of ["All of this name, by duration", "Longest", "What the scheduler did meanwhile", "running"]) assert(sides.includes(part), `details lack ${part}: ${sides}`);
      const first = await selected(page);
      await page.click('[data-do="next"]');
      await page.waitForFunction((item) => window.kasuri.views[0].state.selected?.item !== item, first.item);
      const second = await selected(page);
      assert(second.line === first.line && second.start >= first.end, "next is later in the same row");
      await page.keyboard.press("[");
      await page.waitForFunction((item) => window.kasuri.views[0].state.selected?.item === item, first.item);
      await page.keyboard.press("f");
      const { t0, t1 } = await page.evaluate(() => window.kasuri.views[0].state.view);
      assert(t0 < first.start && t1 > first.end && t1 - t0 < 3 * (first.end - first.start), "f fits it");
      await page.keyboard.press("Escape");
      assert.equal(await selected(page), undefined);
    },
  },
  {
    name: "a woken state names its waker, links to it and has an arrow",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      const woken = await page.evaluate(async () => {
        const [app] = window.kasuri.views;
        const line = app.recording.lines.filter((line) => line.kind === 1)[2];
        const unit = await app.recording.unit(line, 0);
        // Column 2 of a state unit is 1 + the waker.
        const { cell } = { cell: (i) => unit.bytes[unit.columns[2]] === 0 ? 0 : unit.bytes[unit.columns[2] + 1 + i] };
        let i = 5;
        while (unit.value[i] !== 2 || cell(i) === 0) i++;
        await app.selection.selectNumber(line.ix, i);
        const item = app.state.selected;
        app.navigation.show([item.start - 4e5, item.end + 8e5]);
        return i;
      });
      assert(woken > 0);
      await page.waitForFunction(() => document.querySelector(".facts-list")?.textContent.includes("Woken by"));
      await settled();
      const arrows = await page.evaluate(() => window.kasuri.views[0].scenes.now().arrows.filter((arrow) => arrow.strong).length);
      assert(arrows >= 1, "the wake-up has an arrow");
      await shot("woken");
      const before = await selected(page);
      await page.locator("dt:text('Woken by') + dd button").click();
      await page.waitForFunction((line) => window.kasuri.views[0].state.selected?.line.ix !== line, before.line);
      await page.keyboard.press("e");
      await page.evaluate(() => window.kasuri.views[0].navigation.show([2e7, 2.4e7]));
      await settled();
      const all = await page.evaluate(() => window.kasuri.views[0].scenes.now().arrows.length);
      assert(all > 3, `e shows all arrows in view, here ${all}`);
      await shot("arrows");
    },
  },
  {
    name: "search counts, steps through matches in time order and dims the rest",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await page.keyboard.press("/");
      await page.keyboard.type("SPMV");
      await page.waitForSelector(".steps:not([hidden])");
      const total = await page.evaluate(() => {
        const { index } = window.kasuri.views[0].recording;
        return index.names.find((row) => index.strings[row.name] === "spmv").count;
      });
      assert.match(await text(page, ".found"), new RegExp(`^${total} in 1 name$`.replace(/(\d)(?=(\d{3})+ )/g, "$1.")));
      await settled();
      await shot("search");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => window.kasuri.views[0].state.selected);
      let last = await selected(page);
      for (let i = 0; i < 12; i++) {
        await page.keyboard.press("Enter");
        await page.waitForFunction(({ line, item }) => window.kasuri.views[0].state.selected.line.ix !== line || window.kasuri.views[0].state.selected.item !== item, last);
        const now = await selected(page);
        assert(now.start >= last.start, "matches come in time order");
        last = now;
      }
      await page.fill(".search", "/^recover/");
      assert.match(await text(page, ".found"), /^1 in 1 name$/);
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => window.kasuri.views[0].state.selected.end - window.kasuri.views[0].state.selected.start < 2000);
      await settled();
      await shot("rare");
      await page.fill(".search", "/(/");
      assert((await text(page, ".found")).length > 5, "a wrong expression says so");
      await page.fill(".search", "zebra");
      assert.equal(await text(page, ".found"), "no match");
    },
  },
  {
    name: "shift and drag gives the totals of an area",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      const box = await page.locator(".canvas").boundingBox();
      await page.keyboard.down("Shift");
      await page.mouse.move(box.x + 400, box.y + 60);
      await page.mouse.down();
      await page.mouse.move(box.x + 700, box.y + 420, { steps: 5 });
      await page.mouse.up();
      await page.keyboard.up("Shift");
      // The names come last.
      await page.waitForSelector(".details .tables");
      await settled();
      await shot("area");
      const panel = await text(page, ".panel-body");
      for (const part of ["Slices", "Threads: time in each state", "CPUs", "time step"]) assert(panel.includes(part), `lacks ${part}`);
      // What a thread did in an area adds up to the area's length.
      const sums = await page.evaluate(async () => {
        const [app] = window.kasuri.views;
        const { t0, t1 } = app.state.area;
        const line = app.recording.lines.find((line) => line.kind === 1 && line.owner === 0);
        const unit = await app.recording.unit(line, 0);
        let sum = 0;
        for (let i = 0; i < unit.n; i++) sum += Math.max(0, Math.min(unit.end[i], t1) - Math.max(unit.start[i], t0));
        return [sum, t1 - t0];
      });
      assert(Math.abs(sums[0] - sums[1]) < 2, `states sum to ${sums[0]} of ${sums[1]}`);
    },
  },
  {
    name: "rows are pinned, hidden, filtered and folded, and the address keeps all of it",
    file: "demo",
    size: { width: 1440, height: 1200 },
    run: async ({ page, open, settled, shot }) => {
      await open();
      const header = page.locator('.track[data-id="t5002"]');
      await header.hover();
      await header.locator('[data-do="pin"]').click();
      await page.locator('.track[data-id="cpu1"]').hover();
      await page.locator('.track[data-id="cpu1"] [data-do="hide"]').click();
      await times(page, '.track[data-id="cpu1"]', 0);
      await times(page, '.pinned-headers .track[data-id="t5002"]', 1);
      await page.locator('.track[data-id="cpus"] [data-do="fold"]').click();
      await times(page, '.track[data-id="cpu0"]', 0);
      await settled();
      await shot("pinned");
      for (const part of ["pin=t5002", "hide=cpu1", "open="]) await addressHas(page, part);
      const hash = await page.evaluate(() => location.hash);
      await open(hash);
      await page.reload();
      await page.waitForFunction(() => window.kasuri?.times.ready);
      await times(page, '.pinned-headers .track[data-id="t5002"]', 1);
      await page.getByRole("button", { name: "Show the hidden rows again" }).click();
      await page.locator('.track[data-id="cpus"] [data-do="fold"]').click();
      await times(page, '.track[data-id="cpu1"]', 1);
      await page.fill(".filter", "cc1");
      await times(page, ".track.thread", 2);
      await page.fill(".filter", "nothing has this name");
      await page.locator('.pinned-headers .track[data-id="t5002"]').hover();
      await page.locator('[data-id="t5002"] [data-do="pin"]').click();
      assert(await page.locator(".empty-chart").isVisible());
    },
  },
  {
    name: "everything can be reached by keyboard and has a name",
    file: "demo",
    run: async ({ page, open, shot }) => {
      await open();
      await page.locator(".canvas").focus();
      await page.keyboard.press("?");
      assert(await page.locator("dialog.help").isVisible());
      await shot("help");
      await page.keyboard.press("Escape");
      const nameless = await page.evaluate(() =>
        [...document.querySelectorAll("button, input, [role=tab], canvas")]
          .filter((e) => !(e.getAttribute("aria-label") ?? (e.closest("label") ?? e).textContent ?? "").trim())
          .map((e) => e.outerHTML),
      );
      assert.deepEqual(nameless, []);
      const reached = new Set();
      await page.locator(".search").focus();
      for (let i = 0; i < 60; i++) {
        await page.keyboard.press("Tab");
        reached.add(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? ""));
      }
      for (const wanted of ["Help (?)", "pin CPU 0", "hide CPU 0"]) assert(reached.has(wanted), `Tab does not reach "${wanted}"`);
    },
  },
  {
    name: "the panels show names, threads, the summary and the recording",
    file: "demo",
    run: async ({ page, open, shot }) => {
      await open();
      for (const [tab, part] of [["Names", "conjugate gradient"], ["Threads", "quake/3"], ["Summary", "What to try"], ["Recording", "x86-tsc"]]) {
        await page.getByRole("tab", { name: tab }).click();
        assert((await text(page, ".panel-body")).includes(part), `${tab} lacks ${part}`);
        assert(!/[{[]"/.test(await text(page, ".panel-body")), `${tab} prints JSON`);
        await shot(`tab-${tab.toLowerCase()}`);
      }
      await page.getByRole("tab", { name: "Names" }).click();
      await page.locator("td button.link").first().click();
      await page.waitForFunction(() => window.kasuri.views[0].state.selected);
    },
  },
  {
    name: "a recording with locks has their tables, their rows and a prediction",
    file: "locks",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      const row = await page.evaluate(() => window.kasuri.views[0].state.layout.tracks.some((track) => track.rows.some((row) => row.line?.kind === 8)));
      assert(row, "no row of a lock on the chart");
      await page.getByRole("tab", { name: "Locks" }).click();
      const locks = await text(page, ".panel-body");
      for (const part of ["lock ratio", "on path", "look at", "call sites"]) assert(locks.includes(part), `Locks lacks ${part}`);
      await shot("tab-locks");
      await page.getByRole("tab", { name: "Prediction" }).click();
      const prediction = await text(page, ".panel-body");
      const curves = await page.locator(".panel-body svg").count();
      // How far the replay is off this run decides whether there is a number: then with all that explains it, else with nothing that looks like one.
      const numbers = ["speed-up: over one CPU", "what if", "limited by", "chosen"];
      const [wanted, unwanted] = prediction.includes("no number") ? [[], numbers] : [numbers, []];
      for (const part of ["verdict", "uncertainties", ...wanted]) assert(prediction.includes(part), `Prediction lacks ${part}`);
      for (const part of unwanted) assert(!prediction.includes(part), `Prediction has ${part} without a number`);
      assert.equal(curves > 0, wanted.length > 0, "a curve stands for numbers");
      await shot("tab-prediction");
    },
  },
  {
    name: "the program's own threads come before those of other programs",
    file: "demo",
    run: async ({ page, open, settled }) => {
      await open();
      await settled();
      await page.getByRole("tab", { name: "Threads" }).click();
      const captions = await page.locator(".panel-body caption").allInnerTexts();
      assert.match(captions.join(), /^Threads of the program \(\d+\),Threads of other programs \(\d+\)$/);
      const first = page.locator(".panel-body table").first();
      const processes = await first.locator("tbody td:nth-child(2)").allInnerTexts();
      assert.equal(new Set(processes).size, 1, "the first table has the program's threads only");
      assert.match(processes[0], /^quake/);
    },
  },
  {
    name: "dark by the system's wish, light by the toggle",
    file: "demo",
    theme: "dark",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
      await page.evaluate(() => window.kasuri.views[0].selection.selectNumber(window.kasuri.views[0].recording.lines.find((line) => line.kind === 2 && line.depth === 2).ix, 30, false));
      await page.waitForSelector(".side h3");
      await shot("dark");
      await page.keyboard.press("t");
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
    },
  },
  {
    name: "a million slices: merged pixels, every slice within reach",
    file: "flat",
    run: async ({ page, open, settled, shot, bytes }) => {
      await open();
      await settled();
      await shot("million");
      assert(bytes() < 7e6, `the file has ${bytes()} bytes`);
      const longest = await page.evaluate(async () => {
        const [app] = window.kasuri.views;
        const row = app.recording.index.names.reduce((a, b) => (b.max > a.max ? b : a));
        await app.selection.selectNumber(row.line, row.item);
        return { max: row.max, got: app.state.selected.end - app.state.selected.start, start: row.start, at: app.state.selected.start };
      });
      assert.equal(longest.got, longest.max, "the longest slice is where the index says");
      assert.equal(longest.at, longest.start);
      await settled();
      await shot("million-longest");
      // Levels and items agree: what an item covers is not empty in any level.
      const holes = await page.evaluate(async () => {
        const { recording } = window.kasuri.views[0];
        let holes = 0;
        for (const line of recording.lines.slice(0, 4)) {
          const unit = await recording.unit(line, 0);
          for (const level of line.levels) {
            for (let i = 0; i < unit.n; i += 97) {
              const bucket = Math.min(level.n - 1, Math.floor((unit.start[i] / recording.length) * level.n));
              if (level.cover[bucket] === 0) holes++;
            }
          }
        }
        return holes;
      });
      assert.equal(holes, 0);
    },
  },
  {
    name: "a report that was cut short says so",
    file: "demo",
    run: async ({ page, html, trouble }) => {
      await page.setContent(html().replace(/(id="kasuri-index">)[^<]*/, "$1AAAA"));
      await page.waitForFunction(() => window.kasuri?.error);
      assert.match(await text(page, ".failed"), /cannot be shown/);
      // The complaint is the wanted one.
      trouble.length = 0;
    },
  },
  {
    name: "a real recording opens and shows the program's threads",
    file: "real",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      await shot("real");
      assert((await page.locator(".track.thread").count()) > 0);
    },
  },
  {
    name: "a slice's histogram has all of its name, and outliers are one click away",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await page.evaluate(() => {
        const [app] = window.kasuri.views;
        const { index } = app.recording;
        const row = index.names.find((row) => index.strings[row.name] === "spmv");
        return app.selection.selectNumber(row.top[4], row.top[5]);
      });
      await page.waitForSelector(".histogram .bin");
      await settled();
      await shot("histogram");
      const sums = await page.evaluate(async () => {
        const [app] = window.kasuri.views;
        const { index } = app.recording;
        const row = index.names.find((row) => index.strings[row.name] === "spmv");
        let [n, longest] = [0, 0];
        for (const line of app.recording.lines.filter((line) => line.kind === 2)) {
          for (let u = 0; u < line.nUnits; u++) {
            const unit = await app.recording.unit(line, u);
            for (let i = 0; i < unit.n; i++) {
              if (unit.value[i] >> 4 !== row.name) continue;
              n++;
              longest = Math.max(longest, unit.end[i] - unit.start[i]);
            }
          }
        }
        const stored = row.bins.filter((_, i) => i % 2 === 1).reduce((a, b) => a + b);
        return { n, stored, longest, max: row.max, top: row.top[3] };
      });
      assert.equal(sums.stored, sums.n, "no slice is missing in the histogram");
      assert.equal(sums.top, sums.longest);
      await page.locator(".chip").first().click();
      await page.waitForFunction((ns) => Math.abs(window.kasuri.views[0].state.selected.end - window.kasuri.views[0].state.selected.start - ns) < 1, sums.longest);
      // A bar leads to a slice of that duration.
      await page.waitForSelector(".chip.here");
      await settled();
      await page.locator(".histogram .bin").first().click();
      await page.waitForFunction((ns) => window.kasuri.views[0].state.selected.end - window.kasuri.views[0].state.selected.start < ns / 2, sums.longest);
    },
  },
  {
    name: "a lock wait names who held the lock and who ended the wait; the lock has a row",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      const wait = await page.evaluate(async () => {
        const [app] = window.kasuri.views;
        const row = app.recording.index.names.find((row) => row.kind === 6);
        await app.selection.selectNumber(row.line, row.item);
        return { start: app.state.selected.start, end: app.state.selected.end, thread: app.state.selected.line.owner };
      });
      await page.waitForFunction(() => document.querySelector(".sides")?.textContent.includes("Who held the lock meanwhile"));
      await settled();
      await shot("lock-wait");
      assert.match(await text(page, ".sides"), /Who ended its waits/);
      // A lock's holds have the same name; its waits are told apart.
      const counted = await page.evaluate(async () => {
        const [{ recording, state }] = window.kasuri.views;
        const own = state.selected.value;
        let [waits, others] = [0, 0];
        for (const line of recording.lines.filter((line) => line.kind === 2)) {
          for (let u = 0; u < line.nUnits; u++) {
            const unit = await recording.unit(line, u);
            for (let i = 0; i < unit.n; i++) {
              if (unit.value[i] === own) waits++;
              else if (unit.value[i] >> 4 === own >> 4) others++;
            }
          }
        }
        return { waits, others };
      });
      assert(counted.others > 0, "the name is also that of holds");
      assert.match(await text(page, ".sides"), new RegExp(`All waits for this lock's name[^]*${String(counted.waits).replace(/(\\d)(?=(\\d{3})+$)/g, "$1.")} waits`));
      const waits = await page.evaluate(async ({ start, thread }) => {
        const [app] = window.kasuri.views;
        const lock = app.recording.index.locks[0];
        const lines = app.recording.lines.filter((line) => line.kind === 8 && line.depth >= lock.hold_lanes);
        for (const line of lines) {
          const unit = await app.recording.unit(line, 0);
          const i = unit.start.indexOf(start);
          if (i >= 0 && unit.value[i] - 1 === thread) {
            await app.selection.selectNumber(line.ix, i);
            return unit.end[i] - unit.start[i];
          }
        }
        return -1;
      }, wait);
      assert.equal(waits, wait.end - wait.start, "the lock's row has the same wait");
      await page.waitForFunction(() => document.querySelector(".facts-list")?.textContent.includes("show the slice"));
      await settled();
      await shot("lock-row");
      await page.getByRole("button", { name: "show the slice" }).click();
      await page.waitForFunction(() => window.kasuri.views[0].state.selected.line.kind === 2);
    },
  },
  {
    name: "the account of an area is the exact sum of what lies in it, and the stacked area follows its CPUs",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      await page.getByRole("tab", { name: "Account" }).click();
      await page.waitForFunction(() => document.querySelector(".details .headline"));
      await shot("account");
      assert.match(await text(page, ".headline"), /^\d\.\d\d of 4\.00 CPUs did the program's own work/);
      const box = await page.locator(".canvas").boundingBox();
      const at = await page.evaluate(() => {
        const { layout } = window.kasuri.views[0].state;
        const y = (id) => 34 + layout.tracks.find((track) => track.id === id).y + 10;
        return [y("cpu0"), y("cpu1")];
      });
      await page.keyboard.down("Shift");
      await page.mouse.move(box.x + 300, box.y + at[0]);
      await page.mouse.down();
      await page.mouse.move(box.x + 620, box.y + at[1], { steps: 5 });
      await page.mouse.up();
      await page.keyboard.up("Shift");
      await page.waitForSelector(".share-bar.wide");
      await settled();
      await shot("account-area");
      const { sums, expected, length, cpus } = await page.evaluate(async () => {
        const [app] = window.kasuri.views;
        const { t0, t1 } = app.state.area;
        const cpus = app.scenes.now().accountCpus;
        const sums = await app.account.sums(t0, t1, cpus, () => false);
        const expected = new Array(sums.classes.length).fill(0);
        for (const line of app.recording.lines.filter((line) => line.kind === 9 && cpus.has(line.owner))) {
          const unit = await app.recording.unit(line, 0);
          for (let i = 0; i < unit.n; i++) expected[unit.value[i]] += Math.max(0, Math.min(unit.end[i], t1) - Math.max(unit.start[i], t0));
        }
        return { sums: { capacity: sums.capacity, classes: [...sums.classes] }, expected, length: t1 - t0, cpus: [...cpus] };
      });
      assert.deepEqual(cpus, [0, 1]);
      assert.deepEqual(sums.classes, expected);
      assert(Math.abs(sums.capacity - 2 * length) < 1, `${sums.capacity} of ${2 * length}`);
      assert.match(await text(page, '.track[data-id="account"]'), /CPU 0, 1/);
      assert.match(await text(page, ".panel-body"), /What it was lost to/);
    },
  },
  {
    name: "notes and a marked area live in the address",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await page.evaluate(() => window.kasuri.views[0].selection.selectArea(1e7, 1.4e7, 40, 400));
      await page.locator(".canvas").focus();
      await page.keyboard.press("b");
      await page.keyboard.type("50 % late & why?");
      await page.keyboard.press("Enter");
      await addressHas(page, "why%3F");
      await settled();
      await shot("note");
      const hash = await page.evaluate(() => location.hash);
      await page.goto("about:blank");
      await open(hash);
      const notes = await page.evaluate(() => window.kasuri.views[0].state.notes);
      assert.deepEqual(notes, [{ t0: 1e7, t1: 1.4e7, text: "50 % late & why?" }]);
      assert.equal(await page.evaluate(() => window.kasuri.views[0].state.area.t1), 1.4e7);
      await page.getByRole("tab", { name: "Notes (1)" }).click();
      await page.getByRole("button", { name: "delete note 1" }).click();
      assert.equal(await page.evaluate(() => window.kasuri.views[0].state.notes.length), 0);
    },
  },
  {
    name: "with the keyboard alone: find, select, move between rows and neighbours, read, zoom",
    file: "demo",
    size: { width: 1280, height: 720 },
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      await page.keyboard.press("Tab");
      await page.locator(".canvas").focus();
      await page.keyboard.press("j");
      await page.waitForFunction(() => window.kasuri.views[0].state.selected);
      const first = await selected(page);
      const said = await page.locator(".for-readers").first().textContent();
      assert.match(said, /on CPU, .*CPU \d+, at /, said);
      await page.keyboard.press("j");
      await page.waitForFunction((line) => window.kasuri.views[0].state.selected.line.ix !== line, first.line);
      await page.keyboard.press("k");
      await page.waitForFunction((line) => window.kasuri.views[0].state.selected.line.ix === line, first.line);
      await page.keyboard.press(".");
      await page.waitForFunction((item) => window.kasuri.views[0].state.selected.item > item, first.item);
      const before = await page.evaluate(() => window.kasuri.views[0].state.view.t1 - window.kasuri.views[0].state.view.t0);
      await page.keyboard.press("Enter");
      assert((await page.evaluate(() => window.kasuri.views[0].state.view.t1 - window.kasuri.views[0].state.view.t0)) < before / 3, "Enter zooms to it");
      await settled();
      await shot("keyboard-small");
      await page.locator(".minimap").focus();
      const from = await page.evaluate(() => window.kasuri.views[0].state.view.t0);
      await page.keyboard.press("ArrowRight");
      assert((await page.evaluate(() => window.kasuri.views[0].state.view.t0)) > from, "the overview moves by keys");
      await page.getByRole("tab", { name: "Details" }).focus();
      await page.keyboard.press("ArrowRight");
      assert.equal(await page.evaluate(() => document.activeElement.textContent), "Summary");
    },
  },
  {
    name: "the view is saved as SVG with text, and as PNG",
    file: "demo",
    run: async ({ page, open, settled, out }) => {
      await open();
      await page.evaluate(() => window.kasuri.views[0].navigation.show([2e7, 3.2e7]));
      await settled();
      for (const kind of ["SVG", "PNG"]) {
        await page.locator(".menu summary", { hasText: "Save" }).click();
        const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: `Save the view as ${kind}` }).click()]);
        assert.equal(file.suggestedFilename(), `quake-steps-40.${kind.toLowerCase()}`);
        await file.saveAs(out(`saved.${kind.toLowerCase()}`));
      }
      const { readFileSync } = await import("node:fs");
      assert.deepEqual([...readFileSync(out("saved.png")).subarray(1, 4)].map((c) => String.fromCharCode(c)).join(""), "PNG");
      const svg = readFileSync(out("saved.svg"), "utf8");
      const facts = await page.evaluate((svg) => {
        const picture = new DOMParser().parseFromString(svg, "image/svg+xml");
        return { broken: picture.querySelector("parsererror")?.textContent, texts: [...picture.querySelectorAll("text")].map((t) => t.textContent), rects: picture.querySelectorAll("rect").length };
      }, svg);
      assert.equal(facts.broken, undefined);
      for (const part of ["CPU 0", "quake/0", "conjugate gradient", "22 ms"]) assert(facts.texts.includes(part), `the picture lacks "${part}"`);
      assert(facts.rects > 200 && svg.length < 3e6, `${facts.rects} rectangles, ${svg.length} bytes`);
    },
  },
  {
    name: "two recordings: one time scale, aligned at the start or at a name, compared by name",
    file: "pair",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      await shot("pair");
      const views = () => page.evaluate(() => window.kasuri.views.map((app) => [app.state.view.t0 - app.state.origin, app.state.view.t1 - app.state.origin]));
      const same = async (why) => {
        const [a, b] = await views();
        assert(Math.abs(a[0] - b[0]) < 1 && Math.abs(a[1] - b[1]) < 1, `${why}: ${a} and ${b}`);
      };
      await same("at first");
      await page.locator(".pane").nth(1).locator(".canvas").hover();
      await page.locator(".pane").nth(1).locator(".canvas").click();
      await page.keyboard.press("w");
      await page.keyboard.press("w");
      await page.keyboard.press("d");
      await same("after moving the second");
      await page.selectOption("#align", { label: "the first spmv" });
      await page.waitForFunction(() => window.kasuri.views[0].state.origin > 0);
      await same("aligned at a name");
      const starts = await page.evaluate(() => Promise.all(window.kasuri.views.map(async ({ recording, state: { origin } }) => {
        let first = Infinity;
        for (const line of recording.lines.filter((line) => line.kind === 2)) {
          const unit = await recording.unit(line, 0);
          for (let i = 0; i < unit.n; i++) if (recording.text(unit.value[i] >> 4) === "spmv") first = Math.min(first, unit.start[i]);
        }
        return first - origin;
      })));
      assert.deepEqual(starts, [0, 0]);
      await page.evaluate(() => window.kasuri.views[0].navigation.show([-2e6 + window.kasuri.views[0].state.origin, 8e6 + window.kasuri.views[0].state.origin]));
      await settled();
      await shot("pair-aligned");
      const tab = page.locator(".pane-panel.active");
      await tab.getByRole("tab", { name: "Compare" }).click();
      assert.match(await tab.locator(".panel-body").innerText(), /A before .* B after .*: B took 0\.\d+\u00d7 as long/);
      assert.match(await tab.locator(".panel-body").innerText(), /spmv/);
      await addressHas(page, "&b=");
    },
  },
  {
    name: "the summary says where the time went and what to try, in words",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      await shot("summary");
      const body = await text(page, ".panel-body");
      const order = ["You got 3.48 of 4 CPUs: 0.31 lost to imbalance in spmv.", "What to try", "thread 3 has the most work", "kasuri stat --section imbalance", "CPU use", "3.48 of 4 CPUs busy", "1\u2009200, 30 of them preemptions", "Load imbalance"];
      const places = order.map((part) => body.indexOf(part));
      assert.deepEqual(places, [...places].sort((a, b) => a - b), `${order} in ${body}`);
      assert(places[0] >= 0, body);
      // Keys of the JSON are for programs.
      assert.doesNotMatch(body, /_|true|false|unpriced|cost_ns|undefined|NaN/);
      await page.getByRole("button", { name: "quake/3 (5003)" }).click();
    },
  },
  {
    name: "a tab has OpenMP's regions with their loops below them, and what would save time",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      await page.getByRole("tab", { name: "OpenMP" }).click();
      await shot("openmp");
      const panel = page.getByRole("tabpanel");
      const rows = await panel.locator("tbody tr").allInnerTexts();
      const cells = rows.map((row) => row.split("\t"));
      assert.deepEqual(cells.map((row) => row[0]), ["parallel main:8 (solver.c)", "parallel spmv:21 (solver.c)", "\u2003for dynamic spmv:22 (solver.c)"]);
      assert.deepEqual(cells[2].slice(1).map((cell) => cell.trim()), ["120", "4", "880 ms", "3 s", "400 ms", "31.0 %", "4\u2009800"]);
      // A region whose loops are known leaves it to them.
      const sentences = await panel.locator("p.intro").allInnerTexts();
      assert.deepEqual(sentences.map((text) => text.slice(0, text.indexOf(":"))), ["parallel main", "for dynamic spmv"]);
      assert.match(sentences[0], /an even split between its barriers would save 0.433 s of 1.300 s and no more/);
      assert.match(sentences[1], /guided would save 0.240 s of 0.880 s, replayed from 4,800 chunks/);
      await panel.getByRole("button", { name: "barrier" }).click();
      assert.match(await panel.locator("tbody tr").first().innerText(), /main:8/);
    },
  },
  {
    name: "many threads show at once: compact by itself, full by choice, one in full when pinned",
    file: "flat",
    size: { width: 1400, height: 900 },
    run: async ({ page, open, settled, shot }) => {
      const inView = () => page.evaluate(() => {
        const [{ state }] = window.kasuri.views;
        const bottom = state.view.height - 34 - state.layout.pinnedHeight + state.view.scroll;
        return state.layout.tracks.filter((track) => track.kind === "thread" && track.y >= state.view.scroll && track.y + track.height <= bottom).length;
      });
      const compact = page.getByRole("button", { name: /^Compact rows/ });
      await open();
      await settled();
      await shot("compact");
      const all = await page.evaluate(() => window.kasuri.views[0].recording.index.threads.length);
      assert(all >= 60);
      assert.equal(await inView(), all, "all threads are on the screen");
      assert.equal(await compact.getAttribute("aria-pressed"), "true");
      const names = await page.locator(".track.thin").allInnerTexts();
      assert.equal(names.length, await page.evaluate(() => window.kasuri.views[0].state.layout.tracks.filter((track) => track.compact && track.rows.length > 0).length));
      // A click on a thin row's name pins it: it is seen in full.
      await page.locator(".track.thread.thin").nth(5).click();
      const pinned = await page.evaluate(() => window.kasuri.views[0].state.layout.pinned.map((track) => [track.height > 18, track.compact]));
      assert.deepEqual(pinned, [[true, undefined]]);
      await settled();
      await shot("compact-pinned");
      await page.locator(".canvas").focus();
      await page.keyboard.press("j");
      await page.waitForFunction(() => window.kasuri.views[0].state.selected);
      await page.keyboard.press("p");
      assert.deepEqual(await page.evaluate(() => window.kasuri.views[0].state.choices.pinned), [], "p unpins the selection's row");
      await page.keyboard.press("c");
      assert.equal(await compact.getAttribute("aria-pressed"), "false");
      assert((await inView()) < 30, "full rows scroll");
      await addressHas(page, "compact=0");
      const hash = await page.evaluate(() => location.hash);
      await page.goto("about:blank");
      await open(hash);
      assert.equal(await compact.getAttribute("aria-pressed"), "false", "the address keeps the choice");
    },
  },
  {
    name: "a few threads are not compact, and the legend has every colour of the account and the strips once",
    file: "demo",
    run: async ({ page, open, settled }) => {
      for (const theme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: theme });
        await open();
        await settled();
        assert.equal(await page.evaluate(() => window.kasuri.views[0].state.compact), false);
        const groups = await page.locator(".legend-group").evaluateAll((groups) => groups.map((group) => [group.querySelector("strong").textContent, [...group.querySelectorAll(".swatch")].map((swatch) => [swatch.textContent, swatch.querySelector("i").getAttribute("style"), swatch.querySelector("i").className])]));
        assert.deepEqual(groups.map(([title]) => title), ["Account", "Threads"]);
        for (const [title, entries] of groups) assert.equal(new Set(entries.map(([, colour, hatch]) => `${colour} ${hatch}`)).size, entries.length, `${title}: ${entries}`);
        const colours = new Map(groups[0][1].map(([name, colour]) => [name, colour]));
        const waits = groups[1][1].find(([name]) => name === "lock wait");
        assert.equal(colours.get("lock wait"), waits[1], "a lock wait has one colour in the account and in a thread");
        assert(!groups[1][1].some(([name, colour]) => name.startsWith("ready") && [...colours.values()].includes(colour)), "no class has the colour of a ready thread");
        const height = async () => (await page.locator(".legend").boundingBox()).height;
        assert(await height() < 26, "the legend is one line");
        await page.getByRole("button", { name: "All colours" }).click();
        assert(await height() > 34, "and a line for each group when it is opened");
        await page.getByRole("button", { name: "One line" }).click();
      }
    },
  },
  {
    name: "the help says what every colour means, and defines every term of the glossary",
    file: "demo",
    run: async ({ page, open, settled }) => {
      await open();
      await settled();
      await page.locator(".canvas").focus();
      await page.keyboard.press("?");
      const help = await text(page, ".help");
      const classes = await page.evaluate(() => window.kasuri.views[0].recording.index.account.classes);
      for (const [, name] of classes) assert(help.includes(name), `the help lacks ${name}`);
      const rows = readFileSync(new URL("../../../docs/glossary.md", import.meta.url), "utf8").split("\n").filter((line) => line.startsWith("| **"));
      assert(rows.length > 30, `${rows.length} terms in the glossary`);
      for (const row of rows) {
        const cells = row.replace(/\*\*|[*`]/g, "").split("|").map((cell) => cell.trim());
        const [term, meaning] = [cells[1], cells.at(-2)];
        assert(help.includes(term) && help.includes(meaning), `the help lacks ${term}: ${meaning}`);
      }
      assert.match(help, /ready \(preempted\)\s+lost its CPU to another thread/);
      assert.equal(await page.evaluate(() => document.querySelector(".help").scrollTop), 0, "the help begins at its beginning");
    },
  },
  {
    name: "two recordings: both charts show threads, and their accounts stand side by side",
    file: "pair",
    size: { width: 1400, height: 900 },
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      await page.waitForSelector(".pane-panel.active .labelled-bar");
      await shot("pair-threads");
      const threads = await page.evaluate(() => window.kasuri.views.map(({ state }) => {
        const room = state.view.height - 34 - state.layout.pinnedHeight;
        return state.layout.tracks.filter((track) => track.kind === "thread" && track.y + track.height <= room).length;
      }));
      assert(threads.every((n) => n >= 2), `threads on the screen: ${threads}`);
      const table = page.locator(".pane-panel.active table").first();
      const work = (await table.locator("tbody tr").first().innerText()).split("\t").map((cell) => cell.trim());
      assert.equal(work[0], "work");
      const sums = await page.evaluate(() => Promise.all(window.kasuri.views.map(async ({ account, state, recording }) => {
        const [t0, t1] = [Math.max(0, state.view.t0), Math.min(recording.length, state.view.t1)];
        return (await account.sums(t0, t1, undefined, () => false)).classes[0] / (t1 - t0);
      })));
      assert.equal(work[2], sums[0].toFixed(2));
      assert.equal(work[5], sums[1].toFixed(2));
      assert.equal(await page.locator(".legend").count(), 1, "one legend for both");
      // The accounts follow the view.
      const before = await table.innerText();
      await page.evaluate(() => window.kasuri.views[0].navigation.show([2e7, 2.1e7]));
      await page.waitForFunction((before) => document.querySelector(".pane-panel.active table").innerText !== before, before);
    },
  },
  {
    name: "no zoom hides a rare slice or a name's longest, and what is merged is marked",
    file: "flat",
    run: async ({ page, open, shot, settled }) => {
      await open();
      const result = await page.evaluate(async () => {
        const [app] = window.kasuri.views;
        const { recording } = app;
        const { index } = recording;
        const rows = index.names.filter((row) => row.count === 1);
        rows.push(...index.names.filter((row) => row.count > 1));
        const hidden = [];
        let [checked, unmarked, merged, crowded] = [0, 0, 0, 0];
        const rgb = (ink) => ink & 0xffffff;
        for (const row of rows) {
          const line = recording.lines[row.line];
          const own = rgb(app.state.colours.inks(2).of((row.name << 4) | row.kind));
          for (let zoom = 0; ; zoom++) {
            const width = recording.length / 2 ** zoom;
            const view = { ...app.state.view, t0: row.start - 0.37 * width, t1: row.start + 0.63 * width };
            if (row.max / (width / view.width) > 3) break;
            const scene = { ...app.scenes.now(), view };
            let pixels = app.stage.painter.pixelsOf(scene, line);
            for (let wait = 0; !pixels.complete && wait < 6000; wait++) {
              await new Promise((resolve) => setTimeout(resolve, 10));
              pixels = app.stage.painter.pixelsOf(scene, line);
            }
            const { body, edge, mark } = pixels;
            const x = Math.floor(((row.start - view.t0) / width) * body.length);
            const near = [x - 1, x, x + 1];
            checked++;
            if (!near.some((p) => rgb(body[p]) === own || rgb(edge[p]) === own || mark[p] !== 0)) hidden.push(`${index.strings[row.name]} at 1/${2 ** zoom}`);
            // Every pixel that holds two whole slices says that it is merged.
            if (row.count > 1) continue;
            const per = width / body.length;
            const inside = new Uint16Array(body.length + 1);
            for (let u = 0; u < line.nUnits; u++) {
              if (line.to[u] < view.t0 || line.from[u] > view.t1) continue;
              const unit = await recording.unit(line, u);
              for (let i = 0; i < unit.n; i++) {
                const p = Math.floor((unit.start[i] - view.t0) / per);
                if (p >= 0 && p < body.length && Math.floor((unit.end[i] - view.t0) / per) === p) inside[p]++;
              }
            }
            for (let p = 1; p + 1 < body.length; p++) {
              if (inside[p] < 2) continue;
              merged++;
              if (edge[p - 1] === 0 && edge[p] === 0 && edge[p + 1] === 0) unmarked++;
            }
            crowded += inside.filter((n) => n === 0).length;
          }
        }
        return { hidden, checked, unmarked, merged, crowded };
      });
      assert.deepEqual(result.hidden, []);
      assert(result.checked > 150, `only ${result.checked} looked at`);
      assert.equal(result.unmarked, 0, `${result.unmarked} of ${result.merged} merged pixels look like single slices`);
      assert(result.merged > 10_000 && result.crowded > 100, JSON.stringify(result));
      await page.evaluate(() => {
        const [app] = window.kasuri.views;
        const row = app.recording.index.names.find((row) => row.count === 1);
        app.rows.reveal(app.recording.lines[row.line]);
        app.navigation.show([row.start - 2e6, row.start + 2e6]);
      });
      await settled();
      await shot("rare-among-merged");
    },
  },
];
