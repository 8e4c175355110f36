// Starts the report: index, first picture, then the rest of the page as it is parsed.
import type { Index } from "./data/index";
import { printable } from "./data/printable";
import { fromBase64, inflate } from "./data/inflate";
import { startWorkers } from "./data/workers";
import { Recording } from "./data/recording";
import { Address } from "./ui/address";
import { fill, h } from "./ui/dom";
import { Pair } from "./ui/pair";
import { RecordingView } from "./ui/recording-view";
import type { Decoder } from "./data/decode";

/** The workers' program; build.mjs puts it here. */
declare const KASURI_WORKER: string;

declare global {
  interface Window {
    /** For tests and benchmarks. */
    kasuri?: { views: readonly RecordingView[]; times: Record<string, number>; error?: string };
  }
}

const times: Record<string, number> = { script: performance.now() };
window.kasuri = { views: [], times };

const parsed = new Promise<void>((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
});

/**
 * Characters `[from, from + length)` of a data tag; those behind the viewer's code are there when the page is parsed.
 * The parser cuts text into nodes of 65 536 characters: taking the few that are wanted copies no megabytes.
 */
async function tagText(prefix: string, tag: number, from: number, length: number): Promise<string> {
  const find = (): Element | null => document.getElementById(`${prefix}-${tag}`);
  let element = find();
  // A tag that is being parsed has only part of its text: it is whole when something follows it. Waiting for the tag
  // rather than for the page lets workers decode the finest levels while the rest is still being parsed.
  while (!element?.nextSibling && document.readyState === "loading") {
    await new Promise((resolve) => setTimeout(resolve, 10));
    element = find();
  }
  if (!element) throw new Error(`part ${tag} of the file is missing: it was cut short`);
  let text = "";
  let at = 0;
  for (const node of element.childNodes) {
    const data = (node as Text).data;
    if (at + data.length > from) text += data.slice(Math.max(0, from - at), from + length - at);
    at += data.length;
    if (at >= from + length) break;
  }
  return text;
}

/** The recording whose tags' ids begin with `prefix`, drawable but for its finest levels. */
async function read(prefix: string, decoder: Decoder): Promise<Recording> {
  const text = document.getElementById(`${prefix}-index`)?.textContent;
  if (!text) throw new Error("the file holds no recording");
  const bytes = await inflate(fromBase64(text));
  const index = JSON.parse(printable(new TextDecoder().decode(bytes))) as Index;
  const recording = new Recording(index, (tag, from, length) => tagText(prefix, tag, from, length), decoder);
  await recording.loadOverview();
  return recording;
}

/** The first picture needs the index and the overviews; workers decode the finest levels while the browser parses the rest. */
async function start(root: HTMLElement): Promise<void> {
  const decoder = startWorkers(KASURI_WORKER);
  const first = await read("kasuri", decoder);
  const second = document.getElementById("kasuri-b-index") ? await read("kasuri-b", decoder) : undefined;
  const recordings = second ? [first, second] : [first];
  const views = second ? new Pair([first, second], root).views : [new RecordingView(first, root, new Address())];
  window.kasuri = { views, times };
  times.first = performance.now();
  const finest = Promise.all(recordings.map((recording) => recording.loadFinest()));
  await parsed;
  times.parsed = performance.now();
  await finest;
  await new Promise((resolve) => requestAnimationFrame(resolve));
  times.ready = performance.now();
}

const root = document.getElementById("kasuri-app");
if (root) {
  start(root).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    if (window.kasuri) window.kasuri.error = message;
    console.error(error);
    fill(root, h("p", { class: "failed", role: "alert" }, `This report cannot be shown: ${message}`));
  });
}
