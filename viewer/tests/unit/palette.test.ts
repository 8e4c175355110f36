// One colour has one meaning, in both themes, also for people with a colour-vision deficiency as far as that goes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CODE_KINDS } from "../../src/data/call-paths";
import { SLICE_KINDS, STATE_NAMES } from "../../src/data/index";
import { arrowColour } from "../../src/draw/arrows";
import { CHANGE_STEPS, changeColour, codeColour, css, DARK, kindMeaning, LIGHT, MEANINGS, meaningColour, N_NAME_COLOURS, onColour, paletteColour, stateColour, type Meaning } from "../../src/draw/palette";
import { ARROW_KINDS } from "../../src/data/arrow";

type Vector = [number, number, number];

function linear(rgb: number): Vector {
  return [16, 8, 0].map((shift) => {
    const c = ((rgb >> shift) & 255) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  }) as Vector;
}

/** OKLab, Ottosson 2020: distances in it are about as large as they look. */
function oklab([r, g, b]: Vector): Vector {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

/** Machado, Oliveira and Fernandes 2009, full severity: protanopia, deuteranopia, tritanopia. */
const DEFICIENCIES: Vector[][] = [
  [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
];

function seen(rgb: number, deficiency?: Vector[]): Vector {
  const colour = linear(rgb);
  if (!deficiency) return oklab(colour);
  return oklab(deficiency.map((row) => Math.min(1, Math.max(0, row[0] * colour[0] + row[1] * colour[1] + row[2] * colour[2]))) as Vector);
}

function distance(a: number, b: number, deficiency?: Vector[]): number {
  const [x, y] = [seen(a, deficiency), seen(b, deficiency)];
  return Math.hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
}

/** The smallest of the distances as different people see them. */
function leastDistance(a: number, b: number): number {
  return Math.min(distance(a, b), ...DEFICIENCIES.map((deficiency) => distance(a, b, deficiency)));
}

function contrast(a: number, b: number): number {
  const [x, y] = [a, b].map((rgb) => linear(rgb)).map(([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) as [number, number];
  return Math.max(x, y) / Math.min(x, y);
}

const MEANING_NAMES = Object.keys(MEANINGS) as Meaning[];
/** States in which there is nothing to look for: they may be as pale as the background, and are told apart by their labels. */
const QUIET: Meaning[] = ["sleeping", "idle", "exited"];

function pairs<T>(of: readonly T[]): [T, T][] {
  return of.flatMap((a, i) => of.slice(i + 1).map((b): [T, T] => [a, b]));
}

for (const dark of [false, true]) {
  const theme = dark ? "dark" : "light";

  void test(`no colour means two things, ${theme}`, () => {
    for (const [a, b] of pairs(MEANING_NAMES)) {
      const apart = distance(meaningColour(a, dark), meaningColour(b, dark));
      const least = QUIET.includes(a) && QUIET.includes(b) ? 0.028 : 0.033;
      assert(apart >= least, `${a} and ${b} are ${apart.toFixed(3)} apart`);
    }
    // The selection's colour is none of them.
    const accent = parseInt((dark ? DARK : LIGHT).accent.slice(1), 16);
    for (const meaning of MEANING_NAMES) assert.notEqual(meaningColour(meaning, dark), accent, meaning);
  });

  void test(`no name has the colour of a meaning, ${theme}`, () => {
    for (let n = 0; n < N_NAME_COLOURS; n++) {
      for (const meaning of MEANING_NAMES) {
        const apart = distance(paletteColour(n, dark), meaningColour(meaning, dark));
        assert(apart >= 0.025, `name colour ${n} and ${meaning} are ${apart.toFixed(3)} apart`);
      }
    }
  });

  void test(`states that stand side by side are told apart by everybody, ${theme}`, () => {
    for (const [a, b] of pairs(["running", "woken", "preempted", "sleeping", "io", "stopped"] as const)) {
      const apart = leastDistance(meaningColour(a, dark), meaningColour(b, dark));
      assert(apart >= 0.06, `${a} and ${b} are ${apart.toFixed(3)} apart`);
    }
  });

  void test(`classes that lie on each other in the account are told apart by everybody, ${theme}`, () => {
    const stack: Meaning[] = ["running", "systemCalls", "taskRuntime", "tracing", "interrupts", "lockWait", "imbalance", "ownThreads", "io", "external", "throttled", "oversubscription", "interference", "schedulingDelay", "lowParallelism", "other", "unknown"];
    stack.slice(1).forEach((meaning, i) => {
      const apart = leastDistance(meaningColour(stack[i]!, dark), meaningColour(meaning, dark));
      assert(apart >= 0.05, `${stack[i]} and ${meaning} are ${apart.toFixed(3)} apart`);
    });
  });

  void test(`kinds of code that lie on each other in a flame graph are told apart by everybody, ${theme}`, () => {
    for (const [a, b] of pairs(CODE_KINDS.map((name, kind) => ({ name, colour: codeColour(kind, dark) })))) {
      const apart = leastDistance(a.colour, b.colour);
      assert(apart >= 0.06, `${a.name} and ${b.name} are ${apart.toFixed(3)} apart`);
    }
  });

  void test(`more and less are told apart by everybody, ${theme}`, () => {
    const head = parseInt((dark ? DARK : LIGHT).head.slice(1), 16);
    for (const [a, b] of pairs(CHANGE_STEPS.map((points) => changeColour(points, dark) ?? head))) {
      const apart = leastDistance(a, b);
      assert(apart >= 0.04, `${css(a)} and ${css(b)} are ${apart.toFixed(3)} apart`);
    }
    assert.equal(changeColour(0.4, dark), undefined);
    assert.equal(changeColour(-9, dark), meaningColour("muchLess", dark));
    assert.equal(changeColour(2, dark), meaningColour("more", dark));
  });

  void test(`labels are read on every colour, ${theme}`, () => {
    const colours = [...MEANING_NAMES.map((meaning) => meaningColour(meaning, dark)), ...Array.from({ length: N_NAME_COLOURS }, (_, n) => paletteColour(n, dark))];
    for (const rgb of colours) {
      const found = contrast(rgb, parseInt(onColour(rgb).slice(1), 16));
      assert(found >= 4.5, `text on ${css(rgb)} has a contrast of ${found.toFixed(2)}`);
    }
  });

  void test(`states, kinds of slices and arrows take their colours from the meanings, ${theme}`, () => {
    const known = new Set(MEANING_NAMES.map((meaning) => meaningColour(meaning, dark)));
    STATE_NAMES.forEach((name, state) => assert(known.has(stateColour(state, dark)), name));
    assert.equal(new Set(STATE_NAMES.map((_, state) => stateColour(state, dark))).size, STATE_NAMES.length);
    assert.equal(new Set(ARROW_KINDS.map((kind) => arrowColour(kind, dark))).size, ARROW_KINDS.length);
    assert.equal(SLICE_KINDS.filter((_, kind) => kindMeaning(kind)).length, SLICE_KINDS.length - 2, "all kinds but work and task runs");
  });
}

void test("the control: the palettes that shared colours fail", () => {
  // Orange once was a preempted thread and a lock wait; sky blue a woken thread and interference.
  assert(distance(0xd55e00, 0xd55e00) < 0.033 && distance(0xe8b54a, 0xf0b429) < 0.033);
});
