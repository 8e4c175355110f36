// Starts the page: index, first picture, then what it lacks at full detail.
import { Recording } from "./data/recording";
import { Server } from "./data/server";
import type { Source } from "./data/source";
import { Tags } from "./data/tags";
import { startWorkers } from "./data/workers";
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

/** The recording behind `source`, drawable. */
async function read(source: Source, decoder: Decoder): Promise<Recording> {
  const recording = new Recording(await source.index(), (b) => source.block(b), decoder);
  await recording.loadOverview();
  return recording;
}

/** What the page shows: recordings of its own, or those that it asks its server for. */
function sources(root: HTMLElement): Source[] {
  const served = document.getElementById("kasuri-served")?.textContent;
  if (served) {
    const gone = (): void => {
      const text = "kasuri view has ended: what is not read yet cannot be shown. Start it again and open its new address.";
      if (!root.querySelector(".gone")) root.prepend(h("p", { class: "gone", role: "alert" }, text));
    };
    return Array.from({ length: Number(served) }, (_, n) => new Server(n, gone));
  }
  return ["kasuri", "kasuri-b"].filter((prefix, i) => i === 0 || document.getElementById(`${prefix}-index`)).map((prefix) => new Tags(prefix));
}

/** The first picture needs the index and the overviews; then it waits for what the picture at this zoom still lacks. */
async function start(root: HTMLElement): Promise<void> {
  const decoder = startWorkers(KASURI_WORKER);
  const recordings = await Promise.all(sources(root).map((source) => read(source, decoder)));
  const [first, second] = recordings as [Recording, Recording | undefined];
  const views = second ? new Pair([first, second], root).views : [new RecordingView(first, root, new Address())];
  window.kasuri = { views, times };
  times.first = performance.now();
  await parsed;
  times.parsed = performance.now();
  const isReady = (): boolean => views.every((view) => !view.stage.asked && !view.recording.busy);
  do await new Promise((resolve) => requestAnimationFrame(resolve));
  while (!isReady());
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
