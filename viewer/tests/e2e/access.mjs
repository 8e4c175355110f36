// An accessibility checker looks at every state of the page that a person can bring about.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds wrong, in words; rules of WCAG 2.2 A and AA and the checker's own best practices. */
async function faults(page) {
  const found = await page.evaluate(async () => {
    const { violations, passes } = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return { passes: passes.length, violations: violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).join("; ")}`) };
  });
  assert(found.passes > 15, `axe checked only ${found.passes} rules`);
  return found.violations;
}

/** States of the page: what to do, and what is then there. */
const STATES = [
  ["first view", async () => undefined],
  ["a slice", (page) => page.evaluate(() => window.kasuri.views[0].selection.selectNumber(window.kasuri.views[0].recording.lines.find((line) => line.kind === 2 && line.depth === 2).ix, 30))],
  ["a lock wait", (page) => page.evaluate(() => {
    const [app] = window.kasuri.views;
    const row = app.recording.index.names.find((row) => row.kind === 6);
    return app.selection.selectNumber(row.line, row.item);
  })],
  ["a search", (page) => page.fill(".search", "/spmv|lock/")],
  ["what was found", (page) => page.getByRole("tab", { name: "Found" }).click()],
  ["a note", (page) => page.evaluate(() => window.kasuri.views[0].addNote())],
  ["an area", (page) => page.evaluate(() => window.kasuri.views[0].selection.selectArea(1e7, 3e7, 40, 400))],
  ["CPUs by annotation", (page) => page.getByRole("button", { name: /^Annotations/ }).click()],
  ["names", (page) => page.getByRole("tab", { name: "Names" }).click()],
  ["the arrows' menu", (page) => page.locator(".menu summary").first().click()],
  ["the help", (page) => page.evaluate(() => window.kasuri.views[0].help.open())],
];

/** The same of a recording with samples. */
const CODE_STATES = [
  ["the flame graph", (page) => page.getByRole("tab", { name: "Flame graph" }).click()],
  ["a box", async (page) => {
    await page.locator(".flame-canvas").focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
  }],
  ["callers and callees", (page) => page.locator(".flame-chosen .tool").click()],
  ["what is looked for", (page) => page.fill(".flame .filter", "visit_01")],
  ["the table", (page) => page.locator('[data-do="flame-table"]').click()],
  ["states in rows", (page) => page.getByRole("button", { name: /^Functions/ }).click()],
  ["a state with its stack", (page) => page.evaluate(() => window.kasuri.views[0].selection.selectNumber(0, 4))],
  ["the help", (page) => page.evaluate(() => window.kasuri.views[0].help.open())],
];

const pages = [["demo", "", STATES], ["code", " in flame graphs", CODE_STATES]];
export const access = pages.flatMap(([file, what, states]) => ["light", "dark"].map((theme) => ({
  name: `axe finds nothing wrong${what}, ${theme}`,
  file,
  theme,
  run: async ({ page, open, settled }) => {
    await open();
    await settled();
    // Through the debugger: the page takes no script but its own.
    await page.evaluate(axe);
    const wrong = [];
    for (const [state, act] of states) {
      await act(page);
      await page.waitForTimeout(150);
      await settled();
      wrong.push(...(await faults(page)).map((fault) => `${state}: ${fault}`));
    }
    assert.deepEqual(wrong, []);
    // The control: the checker does see what is wrong.
    await page.evaluate(() => window.kasuri.views[0].help.element.close());
    await page.evaluate(() => document.querySelector(".tabs button").removeAttribute("role"));
    await page.evaluate(() => document.body.append(document.createElement("button")));
    assert.notDeepEqual(await faults(page), []);
  },
})));
