// Flame graphs and samples in the rows of threads, as a person uses them.
import assert from "node:assert/strict";

const text = (page, where) => page.locator(where).innerText();

/** Opens the tab and waits for its boxes; gives where the canvas is. */
async function flame(page) {
  await page.getByRole("tab", { name: "Flame graph" }).click();
  await page.waitForFunction(() => document.querySelector(".flame-canvas")?.style.height);
  return page.locator(".flame-canvas").boundingBox();
}

/** Waits for what was asked for before to be on the canvas. */
const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

/** Middle of row `row`, at a share of the width. */
const at = (box, row, share = 0.5) => [box.x + box.width * share, box.y + row * 18 + 9];

/** Waits until what `where` says has `part`. */
const says = (page, where, part) => page.waitForFunction(([where, part]) => document.querySelector(where)?.textContent.includes(part), [where, part]);

/** Colours of a row of the canvas from its left to its right, without repetitions. */
const colours = (page, row) =>
  page.evaluate((row) => {
    const canvas = document.querySelector(".flame-canvas");
    const { data } = canvas.getContext("2d").getImageData(0, row * 18 + 3, canvas.width, 1);
    const found = [];
    for (let i = 0; i < data.length; i += 4) {
      const colour = [data[i], data[i + 1], data[i + 2]].join();
      if (colour !== found.at(-1)) found.push(colour);
    }
    return found;
  }, row);

export const code = [
  {
    name: "a recording without samples shows no flame graph",
    file: "flat",
    run: async ({ page, open }) => {
      await open();
      assert.equal(await page.getByRole("tab", { name: "Flame graph" }).count(), 0);
      assert.equal(await page.getByRole("button", { name: /^Functions/ }).count(), 0);
      await page.keyboard.press("x");
      assert.equal(await page.evaluate(() => window.kasuri.views[0].state.runningBy), "states");
    },
  },
  {
    name: "a flame graph: hover, zoom, back, breadcrumbs, place copied",
    file: "code",
    size: { width: 1400, height: 900 },
    run: async ({ page, open, shot }) => {
      await open();
      const box = await flame(page);
      const facts = await text(page, ".flame-facts");
      for (const part of ["the whole recording", "2 threads", "on CPU, from 10\u2009000 samples", "has a complete stack", "unsampled"]) assert(facts.includes(part), `${part} is not in ${facts}`);
      await shot("flame");
      await page.mouse.move(...at(box, 2));
      await page.waitForSelector(".tooltip:not([hidden])");
      const tip = await text(page, ".tooltip:not([hidden])");
      for (const part of ["main", "100 % of what is shown", "in itself", "native code", "/usr/bin/solver", "solve.cpp:12"]) assert(tip.includes(part), `${part} is not in ${tip}`);
      await page.mouse.click(...at(box, 3, 0.9));
      await says(page, ".flame-crumbs", "worker_loop");
      assert.match(await text(page, ".flame-crumbs"), /all \u203a _start \u203a main \u203a worker_loop/);
      await shot("flame-zoomed");
      await page.getByRole("button", { name: /solve\.cpp:40/ }).click();
      await says(page, ".flame-chosen", "copied");
      await page.locator(".flame-canvas").focus();
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => document.querySelector(".flame-crumbs").textContent === "all");
      // A click zooms, so a double click goes back to what was there before it.
      await page.mouse.dblclick(...at(box, 3, 0.2));
      await drawn(page);
      assert.equal(await text(page, ".flame-crumbs"), "all");
    },
  },
  {
    name: "a flame graph by keys alone: boxes are read out, Enter zooms, Escape goes back",
    file: "code",
    run: async ({ page, open }) => {
      await open();
      await flame(page);
      await page.evaluate(() => window.kasuri.views[0].selection.selectNumber(0, 3));
      await page.locator(".flame-canvas").focus();
      await page.evaluate(() => window.kasuri.views[0].selection.clear());
      await says(page, ".flame-facts", "the whole recording");
      // The keys go from box to box as they were drawn last.
      await drawn(page);
      // What is read out follows the key when the page gets to it.
      const hears = (name) => page.waitForFunction((start) => document.querySelector(".for-readers").textContent.startsWith(start), name);
      for (const name of ["all, ", "_start", "main", "visit_00"]) {
        await page.keyboard.press("ArrowDown");
        await hears(name);
      }
      await page.keyboard.press("ArrowRight");
      await hears("worker_loop");
      await page.keyboard.press("Enter");
      await says(page, ".flame-crumbs", "worker_loop");
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => document.querySelector(".flame-crumbs").textContent === "all");
    },
  },
  {
    name: "a flame graph follows the selection: an area, a thread's state, what is in view",
    file: "code60",
    run: async ({ page, open, settled }) => {
      await open();
      await settled();
      await flame(page);
      await says(page, ".flame-facts", "60 threads");
      await page.evaluate(() => {
        const [view] = window.kasuri.views;
        const tracks = view.state.layout.tracks.filter((track) => track.kind === "thread").slice(0, 3);
        view.selection.selectArea(1e8, 3e8, 34 + tracks[0].y + 1, 34 + tracks[2].y + 1);
      });
      await says(page, ".flame-facts", "the marked area, 200 ms, 3 threads");
      assert.equal(await page.getByRole("tab", { name: "Flame graph" }).getAttribute("aria-selected"), "true");
      const ns = await page.evaluate(() => window.kasuri.views[0].flame.sums.running.sum);
      assert(ns > 2e8 && ns < 6e8, `${ns} ns of three threads in 200 ms`);
      await page.getByLabel("time that is added up").selectOption("view");
      await page.evaluate(() => window.kasuri.views[0].navigation.show([2e8, 7e8]));
      await says(page, ".flame-facts", "what is in view, 500 ms");
      await page.getByLabel("time that is added up").selectOption("selected");
      await page.getByLabel("threads that are added up").selectOption({ label: "solver/7 (1007)" });
      await says(page, ".flame-facts", "solver/7 (1007)");
    },
  },
  {
    name: "the flame graph of a wait shows where it waited, until somebody asks for what ran",
    file: "code",
    run: async ({ page, open }) => {
      await open();
      await flame(page);
      const pressed = (sort) => page.locator(`[data-do="flame-${sort}"]`).getAttribute("aria-pressed");
      assert.equal(await pressed("running"), "true");
      const wait = await page.evaluate(async () => {
        const { recording, selection } = window.kasuri.views[0];
        const found = recording.lines.find((line) => line.kind === 1);
        for (let item = 0; ; item++) {
          await selection.selectNumber(found.ix, item, false);
          if (window.kasuri.views[0].state.selected.value === 4) return item;
        }
      });
      assert(wait >= 0);
      await says(page, ".flame-facts", "waiting, from");
      assert.equal(await pressed("waiting"), "true");
      await page.locator('[data-do="flame-running"]').click();
      await says(page, ".flame-facts", "0 ns on CPU");
      assert.equal(await pressed("running"), "true");
    },
  },
  {
    name: "a flame graph of waits, of both, by function, in a table; search; callers and callees",
    file: "code",
    theme: "dark",
    run: async ({ page, open, shot }) => {
      await open();
      const box = await flame(page);
      await page.locator('[data-do="flame-waiting"]').click();
      await says(page, ".flame-facts", "waiting, from");
      await page.locator('[data-do="flame-both"]').click();
      await says(page, ".flame-facts", "on CPU, ");
      await drawn(page);
      await page.mouse.move(...at(box, 1, 0.99));
      await says(page, ".tooltip:not([hidden])", "waiting");
      await page.mouse.move(...at(box, 1, 0.01));
      await says(page, ".tooltip:not([hidden])", "on CPU");
      await shot("flame-both-dark");
      await page.locator('[data-do="flame-running"]').click();
      await page.fill(".flame .filter", "worker_loop");
      await says(page, ".flame-controls", "of the time");
      const share = /([\d.]+) % of the time/.exec(await text(page, ".flame-controls"))[1];
      assert(share > 20 && share < 50, share);
      await drawn(page);
      assert((await colours(page, 3)).length > 3, "what does not match is paler");
      await page.locator('[data-do="flame-callers"]').click();
      await page.fill(".flame .filter", "");
      await drawn(page);
      await shot("flame-by-function-dark");
      await page.locator('[data-do="flame-table"]').click();
      await page.waitForSelector(".flame table");
      const first = await text(page, ".flame tbody tr:first-child td:first-child");
      await page.locator(".flame tbody tr:first-child .link").click();
      await says(page, ".flame-crumbs", "callers and callees of");
      assert((await text(page, ".flame-crumbs")).includes(first), first);
      await drawn(page);
      // The function's own row, over the whole width, is in view.
      const own = await page.evaluate(() => {
        const box = document.querySelector(".flame-box");
        const { middle } = window.kasuri.views[0].flame.graph.flame;
        return { top: middle * 18 - box.scrollTop, room: box.clientHeight };
      });
      assert(own.top >= 0 && own.top + 18 <= own.room, JSON.stringify(own));
      assert.equal(await page.locator('[data-do="flame-table"]').getAttribute("aria-pressed"), "false");
      await shot("flame-sandwich-dark");
    },
  },
  {
    name: "samples in rows: ticks at deep zoom, stacks on hover and in the details, rows by function",
    file: "code",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      const range = await page.evaluate(async () => {
        const [view] = window.kasuri.views;
        const [line] = view.recording.lines;
        const unit = await view.recording.unit(line, 0);
        let i = 0;
        while (unit.value[i] !== 4 || unit.value[i + 1] !== 2) i++;
        view.navigation.show([unit.start[i] - 2e7, unit.end[i] + 2e7]);
        return { middle: (unit.start[i] + unit.end[i]) / 2, item: i, before: unit.start[i] - 1e5 };
      });
      const row = (t) => page.evaluate((t) => {
        const [view] = window.kasuri.views;
        const track = view.state.layout.tracks.find((track) => track.kind === "thread");
        const box = view.stage.canvas.getBoundingClientRect();
        return [box.left + view.state.x(t), box.top + 34 + track.y - view.state.view.scroll + track.rows[0].y + 4];
      }, t);
      await page.mouse.move(...(await row(range.middle)));
      await says(page, ".tooltip:not([hidden])", "waited in");
      const tip = await text(page, ".tooltip:not([hidden])");
      for (const part of ["sleeping", "futex_wait_queue", "pthread_mutex_lock", "waits at this instant for", "\u2190 solver/1 (1001)", "woken by solver/1 (1001)"]) assert(tip.includes(part), `${part} is not in ${tip}`);
      await shot("wait-stack");
      await page.mouse.move(...(await row(range.before)));
      await says(page, ".tooltip:not([hidden])", "ran");
      await page.waitForFunction(() => window.kasuri.views[0].scenes.now().code !== undefined);
      await settled();
      const pixels = () => page.evaluate(() => {
        const [view] = window.kasuri.views;
        const track = view.state.layout.tracks.find((track) => track.kind === "thread");
        // A copy: the browser warns of a canvas that is read again and again.
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [view.stage.canvas.width, view.stage.canvas.height];
        const pen = canvas.getContext("2d", { willReadFrequently: true });
        pen.drawImage(view.stage.canvas, 0, 0);
        const top = 34 + track.y + track.rows[0].y;
        const colours = (y) => new Set(new Uint32Array(pen.getImageData(0, y, canvas.width, 1).data.buffer)).size;
        return { states: colours(top + 2), foot: colours(top + track.rows[0].height - 3) };
      });
      // Nobody annotated this program: functions are shown from the start, and the legend names them.
      await page.mouse.move(10, 400);
      await page.waitForFunction(() => window.kasuri.views[0].scenes.now().code?.colours);
      await settled();
      const functions = await pixels();
      await shot("rows-by-function");
      assert.equal(await page.getByRole("button", { name: /^Functions/ }).getAttribute("aria-pressed"), "true");
      assert.equal(await page.getByRole("button", { name: /^Annotations/ }).count(), 0);
      await says(page, ".legend", "dot");
      assert(!page.url().includes("by="), page.url());
      await page.keyboard.press("x");
      await page.waitForFunction(() => location.hash.includes("by=states"));
      await settled();
      assert(functions.states > (await pixels()).states + 3, "functions have colours of their own");
      assert(!(await text(page, ".legend")).includes("dot"), "states have no functions in the legend");
      await page.evaluate((item) => window.kasuri.views[0].selection.selectNumber(0, item), range.item);
      await page.waitForSelector(".stack");
      assert((await text(page, ".stack")).includes("pthread_mutex_lock"));
      // The waker's name leads to what it did then.
      await page.locator(".stack .link").first().click();
      await page.waitForFunction(() => window.kasuri.views[0].state.selected.line.owner === 1);
    },
  },
  {
    name: "rows of CPUs by the innermost annotation: exact, named, in the legend, found by a search, kept by the address",
    file: "demo",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      assert.equal(await page.evaluate(() => window.kasuri.views[0].state.runningBy), "states", "annotated programs begin with threads");
      await page.getByRole("button", { name: /^Annotations/ }).click();
      await page.waitForFunction(() => location.hash.includes("by=annotations"));
      await settled();
      await shot("cpus-by-annotation");
      // For each CPU, what every hundredth of the view was in longest, worked out here from all items.
      const wrong = await page.evaluate(async () => {
        const [view] = window.kasuri.views;
        const { recording, scenes } = view;
        const span = { t0: 0, t1: recording.length, width: 100, length: recording.length };
        const frame = () => scenes.now().names.frame(span);
        const cpus = recording.lines.filter((line) => line.kind === 0);
        for (const cpu of cpus) for (;;) {
          const made = frame();
          made.keys(cpu);
          if (made.complete) break;
          await new Promise((done) => setTimeout(done, 20));
        }
        const all = async (line) => {
          const items = [];
          for (let u = 0; u < line.nUnits; u++) {
            const unit = await recording.unit(line, u);
            for (let i = 0; i < unit.n; i++) items.push([unit.start[i], unit.end[i], unit.value[i]]);
          }
          return items;
        };
        const slices = new Map();
        for (const line of recording.lines.filter((line) => line.kind === 2)) {
          if (!slices.has(line.owner)) slices.set(line.owner, []);
          slices.get(line.owner).push(...(await all(line)).filter(([, , value]) => (value & 15) !== 7).map((item) => [...item, line.depth]));
        }
        const found = [];
        let named = 0;
        for (const cpu of cpus) {
          const keys = frame().keys(cpu);
          const items = await all(cpu);
          for (let x = 0; x < 100; x++) {
            const [t0, t1] = [(x * recording.length) / 100, ((x + 1) * recording.length) / 100];
            const times = new Map();
            for (const [start, end, value] of items) {
              const [from, to] = [Math.max(start, t0), Math.min(end, t1)];
              if (to <= from) continue;
              const open = (slices.get(value - 1) ?? []).filter(([s, e]) => s < to && e > from);
              const cuts = [...new Set([from, to, ...open.flatMap(([s, e]) => [s, e]).filter((t) => t > from && t < to)])].sort((a, b) => a - b);
              for (let c = 0; c + 1 < cuts.length; c++) {
                const [a, b] = [cuts[c], cuts[c + 1]];
                const inner = open.filter(([s, e]) => s <= a && e >= b).sort((p, q) => q[3] - p[3])[0];
                const key = inner ? inner[2] + 1 : -value;
                times.set(key, (times.get(key) ?? 0) + b - a);
              }
            }
            const most = Math.max(0, ...times.values());
            if (keys[x] > 0) named++;
            // Of two that are equally long either is right.
            if (most === 0 ? keys[x] !== 0 : (times.get(keys[x]) ?? 0) < most * 0.999999) found.push([cpu.owner, x, keys[x], [...times]]);
          }
        }
        return { found: found.slice(0, 3), named };
      });
      assert.deepEqual(wrong.found, []);
      assert(wrong.named > 50, `${wrong.named} pixels have a name`);
      const [name] = await page.evaluate(() => window.kasuri.views[0].recording.index.names.filter(({ kind }) => kind === 0).sort((a, b) => b.total - a.total).map(({ name }) => window.kasuri.views[0].recording.text(name)));
      await says(page, ".legend", name);
      // What is not looked for is paler.
      const strength = () => page.evaluate(() => {
        const [view] = window.kasuri.views;
        const track = view.state.layout.tracks.find((track) => track.kind === "cpu");
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [view.stage.canvas.width, view.stage.canvas.height];
        const pen = canvas.getContext("2d", { willReadFrequently: true });
        pen.drawImage(view.stage.canvas, 0, 0);
        const { data } = pen.getImageData(0, 34 + track.y + track.rows[0].y + 5, canvas.width, 1);
        let sum = 0;
        for (let i = 0; i < data.length; i += 4) sum += Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]);
        return sum;
      });
      const before = await strength();
      await page.fill(".search", "no slice has this name");
      await page.waitForFunction(() => window.kasuri.views[0].state.found !== undefined);
      await settled();
      const after = await strength();
      assert(after < before * 0.6, `${after} of ${before}`);
      await page.fill(".search", "");
      // The pointer on a CPU names all annotations around the moment.
      const at = await page.evaluate(() => {
        const [view] = window.kasuri.views;
        const track = view.state.layout.tracks.find((track) => track.kind === "cpu");
        const keys = view.scenes.now().names.frame({ t0: view.state.view.t0, t1: view.state.view.t1, width: 100, length: view.recording.length }).keys(track.rows[0].line);
        const box = view.stage.canvas.getBoundingClientRect();
        return [box.left + ((keys.findIndex((key, x) => key > 0 && keys[x - 1] === key && keys[x + 1] === key) + 0.5) * view.state.view.width) / 100, box.top + 34 + track.y + track.rows[0].y + 5];
      });
      await page.mouse.move(...at);
      await says(page, ".tooltip:not([hidden])", "in ");
      await page.mouse.move(10, 10);
      await page.evaluate(() => window.kasuri.views[0].stage.canvas.focus());
      await page.keyboard.press("i");
      await page.waitForFunction(() => !location.hash.includes("by="));
    },
  },
  {
    name: "why a thread waited for a lock: in words, with who held it, also without samples",
    file: "demo",
    run: async ({ page, open, settled }) => {
      await open();
      await settled();
      // A blocked state in the middle of a lock's wait that somebody held meanwhile.
      const found = await page.evaluate(async () => {
        const [view] = window.kasuri.views;
        const { recording } = view;
        for (const line of recording.lines.filter((line) => line.kind === 2)) {
          const unit = await recording.unit(line, 0);
          const states = recording.lines.find((other) => other.kind === 1 && other.owner === line.owner);
          if (!states) continue;
          const its = await recording.unit(states, 0);
          for (let i = 0; i < unit.n; i++) {
            if ((unit.value[i] & 15) !== 6) continue;
            const at = its.start.findIndex((start, s) => its.value[s] === 4 && (start + its.end[s]) / 2 > unit.start[i] && (start + its.end[s]) / 2 < unit.end[i]);
            if (at < 0) continue;
            await view.selection.selectNumber(states.ix, at);
            return recording.text(unit.value[i] >> 4);
          }
        }
        return undefined;
      });
      assert(found !== undefined, "the demo has a wait for a lock");
      await says(page, ".stack", `lock wait: ${found}`);
      await says(page, ".stack", "held meanwhile by ");
      await page.locator(".stack .link").first().click();
    },
  },
  {
    name: "a class of the account leads to the code behind it: exactly its time, of any part, on any CPUs; a name leads to its own",
    file: "locks",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      // The flame graph's parts and the account's sum, of the same time and CPUs.
      const same = () => page.evaluate(async () => {
        const [view] = window.kasuri.views;
        const { sums } = view.flame;
        const { loss, cpus, spans } = sums.subject.loss;
        const [[t0, t1]] = spans;
        const account = await view.account.sums(t0, t1, cpus, () => false);
        return { flame: sums.running.sum + sums.times.runningUnsampled + sums.without, account: account.classes[loss], key: view.recording.index.account.classes[loss][0], t0, t1 };
      });
      const check = async (least = 1) => {
        const { flame, account, ...of } = await same();
        assert(account >= least, JSON.stringify(of));
        assert(Math.abs(flame - account) < 1, `${flame} in the flame graph, ${account} in the account: ${JSON.stringify(of)}`);
        return account;
      };
      // From the account's table.
      await page.getByRole("tab", { name: "Account" }).click();
      await page.getByRole("button", { name: "lock wait", exact: true }).first().click();
      await says(page, ".flame-facts", "lock wait: the whole recording");
      await says(page, ".flame-facts", "with a call path");
      const whole = await check();
      await shot("flame-lock-wait");
      assert.equal(await page.getByLabel("threads that are added up").isDisabled(), true);
      assert.equal(await page.locator('[data-do="flame-waiting"]').isDisabled(), true);
      const names = await page.evaluate(() => {
        const [view] = window.kasuri.views;
        const names = [];
        const walk = (box) => { names.push(view.flame.sums.paths.functions[box.fn]?.name); box.children().forEach(walk); };
        walk(view.flame.root);
        return names;
      });
      assert(names.some((name) => /lock/.test(name ?? "")), `where the lock is asked for is not in ${names}`);
      // Half of the time, and then one CPU of it: the open tab follows.
      const list = page.getByLabel("class of the account that is added up");
      await page.getByLabel("time that is added up").selectOption("selected");
      await page.evaluate(() => {
        const [view] = window.kasuri.views;
        view.selection.selectArea(view.recording.length * 0.3, view.recording.length * 0.7, 34, 2000);
      });
      await says(page, ".flame-facts", "lock wait: the marked area");
      // On a machine that does other things the threads may run one after the other there, or wait for each other only there.
      assert((await check(0)) <= whole);
      await page.evaluate(() => {
        const [view] = window.kasuri.views;
        const track = view.state.layout.tracks.find((track) => track.kind === "cpu");
        const top = 34 + track.y - view.state.view.scroll;
        view.selection.selectArea(view.recording.length * 0.3, view.recording.length * 0.7, top + 2, top + 4);
      });
      await says(page, ".flame-facts", "on CPU ");
      await check(0); // on a busy machine that CPU may have had no thread that waited
      // Every class that the list offers.
      await page.evaluate(() => window.kasuri.views[0].selection.clear());
      for (const value of await list.locator("option").evaluateAll((options) => options.map(({ value }) => value).filter((value) => value !== ""))) {
        const before = await page.evaluate(() => (window.kasuriSums = window.kasuri.views[0].flame.sums) && true);
        assert(before);
        await list.selectOption(value);
        await page.waitForFunction((value) => window.kasuri.views[0].flame.sums.subject.loss?.loss === Number(value) && window.kasuri.views[0].flame.sums.subject.text.includes("the whole recording"), value);
        const { flame, account } = await same();
        assert(Math.abs(flame - account) < 1, `class ${value}: ${flame} and ${account}`);
      }
      await page.getByLabel("what it is compared with").selectOption("rest");
      await says(page, ".flame-facts", "A: the rest of the time");
      await page.getByLabel("what it is compared with").selectOption("nothing");
      await list.selectOption("");
      await page.waitForFunction(() => window.kasuri.views[0].flame.sums.subject.loss === undefined);
      assert.equal(await page.getByLabel("threads that are added up").isDisabled(), false);
      // A name of the table leads to all of its slices, without any of them selected.
      await page.getByRole("tab", { name: "Names" }).click();
      const name = await text(page, "[role=tabpanel] tbody tr:first-child td:first-child");
      await page.getByRole("button", { name: "flame graph" }).first().click();
      await says(page, ".flame-facts", `all "${name}" in`);
      assert.equal(await page.getByLabel("time that is added up").inputValue(), "name");
      // So does a slice that is selected.
      await page.evaluate(() => {
        const [view] = window.kasuri.views;
        const row = view.recording.index.names.find((row) => view.recording.text(row.name) !== "");
        view.panel.open("details");
        return view.selection.selectNumber(row.line, row.item);
      });
      await page.locator('[data-do="code"]').click();
      await says(page, ".flame-facts", 'all "');
    },
  },
  {
    name: "a real wait for a lock, by pointer and in the details: reason, holder and what it ran, where it waited, waker and its stack",
    file: "locks",
    run: async ({ page, open, settled, shot }) => {
      await open();
      await settled();
      // Sleeps in the middle of lock waits, the longest first.
      const sleeps = await page.evaluate(async () => {
        const [view] = window.kasuri.views;
        const { recording } = view;
        const found = [];
        for (const line of recording.lines.filter((line) => line.kind === 2)) {
          const states = recording.lines.find((other) => other.kind === 1 && other.owner === line.owner);
          if (!states) continue;
          const sleeps = [];
          for (let u = 0; u < states.nUnits; u++) {
            const unit = await recording.unit(states, u);
            for (let i = 0; i < unit.n; i++) if (unit.value[i] === 4) sleeps.push([unit.start[i], unit.end[i], states.base[u] + i]);
          }
          for (let u = 0; u < line.nUnits; u++) {
            const unit = await recording.unit(line, u);
            for (let i = 0; i < unit.n; i++) {
              if ((unit.value[i] & 15) !== 6) continue;
              for (const [start, end, item] of sleeps.filter(([start, end]) => start >= unit.start[i] && end <= unit.end[i])) found.push({ line: states.ix, item, start, end });
            }
          }
        }
        return found.sort((a, b) => b.end - b.start - a.end + a.start).slice(0, 60);
      });
      assert(sleeps.length > 0, "threads sleep while they wait for a lock");
      const PARTS = [/lock wait/, /held meanwhile by [^,]+(, most in| no sample shows what it did)/, /waited in/, /lock/, /woken by [^,]+, in/];
      let told = "";
      let at;
      for (const sleep of sleeps) {
        await page.evaluate(({ line, item }) => window.kasuri.views[0].selection.selectNumber(line, item), sleep);
        await page.waitForFunction(({ line, item }) => window.kasuri.views[0].state.selected?.line.ix === line && window.kasuri.views[0].state.selected.item === item && document.querySelector(".stack"), sleep);
        told = (await text(page, ".stack")).replace(/\s+/g, " ");
        at = sleep;
        if (PARTS.every((part) => part.test(told))) break;
      }
      for (const part of PARTS) assert.match(told, part);
      await page.evaluate(({ start, end }) => window.kasuri.views[0].navigation.show([start - (end - start), end + (end - start)]), at);
      await settled();
      const place = await page.evaluate(({ line, start, end }) => {
        const [view] = window.kasuri.views;
        const track = view.state.layout.tracks.find(({ rows }) => rows.some((row) => row.line.ix === line));
        const box = view.stage.canvas.getBoundingClientRect();
        return [box.left + view.state.x((start + end) / 2), box.top + 34 + track.y - view.state.view.scroll + track.rows.find((row) => row.line.ix === line).y + 4];
      }, at);
      await page.mouse.move(...place);
      await says(page, ".tooltip:not([hidden])", "woken by");
      const tip = (await text(page, ".tooltip:not([hidden])")).replace(/\s+/g, " ");
      for (const part of PARTS) assert.match(tip, part);
      await shot("lock-wait-stack");
      // The names of holder and waker lead to what they did then.
      const owner = await page.evaluate(() => window.kasuri.views[0].state.selected.line.owner);
      await page.locator(".stack .link").first().click();
      await page.waitForFunction((owner) => window.kasuri.views[0].state.selected.line.owner !== owner, owner);
    },
  },
  {
    name: "letters typed into a list or a box are no keys of the chart; beside a box to tick they are",
    file: "code",
    run: async ({ page, open, settled }) => {
      await open();
      await settled();
      await flame(page);
      const state = () => page.evaluate(() => {
        const { view, theme, choices, runningBy, selected, notes, arrowKinds } = window.kasuri.views[0].state;
        return JSON.stringify([view, theme.dark, choices.compact, runningBy, selected?.item, notes.length, [...arrowKinds], window.kasuri.views[0].help.isOpen]);
      });
      await page.evaluate(() => window.kasuri.views[0].navigation.show([1e8, 2e8]));
      await page.evaluate(() => window.kasuri.views[0].selection.selectNumber(0, 40));
      await settled();
      const letters = ["w", "s", "a", "d", "f", "c", "p", "e", "x", "i", "j", "k", "b", "t", "n", "[", "]", ",", ".", "0"];
      const before = await state();
      const owners = page.locator("select, input:not([type=checkbox])");
      assert((await owners.count()) >= 6, "lists of the flame graph, search, filter, functions to find");
      let seen = 0;
      for (const owner of await owners.all()) {
        if (!(await owner.isVisible()) || (await owner.isDisabled())) continue;
        seen++;
        for (const key of letters) {
          // Each goes to the focus: a list that closes or a box that leaves would take it away.
          await owner.focus();
          await page.keyboard.press(key);
        }
        const name = await owner.getAttribute("aria-label");
        if ((await owner.evaluate((element) => element.tagName)) === "INPUT") await owner.fill("");
        assert.equal(await state(), before, `letters typed into ${name}`);
      }
      assert(seen >= 6, `${seen} were tried`);
      // The control, and a box to tick.
      await page.evaluate(() => window.kasuri.views[0].stage.canvas.focus());
      await page.keyboard.press("t");
      assert.notEqual(await state(), before);
      await page.locator(".menu summary").first().click();
      const box = page.locator(".menu input[type=checkbox]").first();
      if (await box.count()) {
        await box.focus();
        await page.keyboard.press("t");
        assert.equal(await state(), before);
      }
    },
  },
  {
    name: "a flame graph compared: with the rest of the time, other threads, what was shown before; in words, colours and a table",
    file: "code",
    run: async ({ page, open, shot }) => {
      await open();
      const box = await flame(page);
      const against = page.getByLabel("what it is compared with");
      assert.equal(await against.locator("option").count(), 4, "there is no other recording");
      const area = (t0, t1) => page.evaluate(([t0, t1]) => window.kasuri.views[0].selection.selectArea(t0, t1, 34, 400), [t0, t1]);
      // Code changes with every 200 ms.
      await area(1e6, 2e8);
      await says(page, ".flame-facts", "the marked area, 199 ms");
      await against.selectOption("rest");
      await says(page, ".flame-facts", "A: the rest of the time, ");
      await says(page, ".flame-facts", "B: the marked area, 199 ms");
      await drawn(page);
      assert((await colours(page, 5)).length > 3, "more and less have colours");
      await shot("flame-compared");
      await page.mouse.move(...at(box, 5, 0.02));
      await page.waitForFunction(() => /points (more|less) of the time in B: .* in B, .* in A|only in [AB]|as much of the time/.test(document.querySelector(".tooltip:not([hidden])")?.textContent ?? ""));
      assert((await text(page, ".flame-legend")).includes("8+ points more"));
      // What was kept is A for whatever is selected afterwards.
      await against.selectOption("nothing");
      await says(page, ".flame-facts", "the marked area, 199 ms");
      await against.selectOption("kept");
      await says(page, ".flame-facts", "A: the marked area, 199 ms");
      await area(2e8, 4e8);
      await says(page, ".flame-facts", "B: the marked area, 200 ms");
      assert((await text(page, ".flame-facts")).includes("A: the marked area, 199 ms"));
      await page.locator('[data-do="flame-table"]').click();
      await page.waitForSelector(".flame table");
      const rows = await page.locator(".flame tbody tr").evaluateAll((rows) => rows.map((row) => Math.abs(parseFloat(row.cells[3].textContent))));
      assert(rows[0] > 0, "something changed");
      rows.slice(1).forEach((change, i) => assert(change <= rows[i], `${rows[i]} points before ${change}`));
      await page.locator(".flame tbody tr:first-child .link").click();
      await says(page, ".flame-crumbs", "callers and callees of");
      await page.getByLabel("threads that are added up").selectOption({ label: "solver/1 (1001)" });
      await against.selectOption("others");
      await says(page, ".flame-facts", "A: the other threads (1) at the same time");
    },
  },
  {
    name: "flame graphs of two recordings compared: A is the one above, in the panels of both",
    file: "codepair",
    run: async ({ page, open, shot }) => {
      await open();
      for (const [i, own] of [[0, "A"], [1, "B"]]) {
        const panel = page.locator(".pane-panel").nth(i);
        await page.locator(".pane .canvas").nth(i).click({ position: { x: 300, y: 8 } });
        await panel.getByRole("tab", { name: "Flame graph" }).click();
        await panel.getByLabel("what it is compared with").selectOption("recording");
        await page.waitForFunction((i) => /A: the whole recording.*2 threads.*B: the whole recording.*4 threads/s.test(document.querySelectorAll(".pane-panel")[i].querySelector(".flame-facts")?.textContent ?? ""), i);
        const shares = await page.evaluate((i) => window.kasuri.views[i].flame.root.children().map((box) => box.sides.map((side) => side.total)), i);
        assert(shares.length >= 1 && shares[0].every((share) => share > 0.9), `functions are the same in both, ${own}: ${JSON.stringify(shares)}`);
      }
      await shot("flame-pair");
    },
  },
  {
    name: "a flame graph in a narrow window, and with sixty threads",
    file: "code60",
    size: { width: 700, height: 800 },
    run: async ({ page, open, shot }) => {
      await open();
      await flame(page);
      await shot("flame-narrow");
      const { wide, inner } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, inner: window.innerWidth }));
      assert(wide <= inner, `the page is ${wide} wide`);
      const height = await page.locator(".flame-box").evaluate((box) => box.clientHeight);
      assert(height >= 90, `${height} px are left for boxes`);
      // Nothing is cut: neither a control of the two bars nor the text of a list.
      const cut = await page.evaluate(() => [...document.querySelectorAll(".bar > *, .flame-controls > *")].filter((element) => element.getBoundingClientRect().right > window.innerWidth || element.scrollWidth > element.clientWidth + 1).map((element) => element.outerHTML.slice(0, 80)));
      assert.deepEqual(cut.filter((html) => !html.includes("title")), []);
    },
  },
];
