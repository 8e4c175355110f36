// Facts about the recording: where and how it was made, and what it lacks.
import type { Index } from "../data/index";
import { count, duration } from "../view/units";
import { h } from "./dom";

/** What is not known (an empty text, null) is left out. */
export function infoTab(index: Index): HTMLElement {
  const { info } = index;
  const list = h("dl", { class: "facts-list wide" });
  const fact = (name: string, value: string | number | null): void => {
    if (value !== null && value !== "") list.append(h("dt", {}, name), h("dd", {}, String(value)));
  };
  fact("Command", info.command.join(" "));
  fact("Exit status", info.exit_status);
  fact("Length", duration(index.span[1] - index.span[0]));
  // ns since 1970 do not fit a double exactly, so they travel as text.
  if (info.realtime_ns !== "") fact("Begun", new Date(Number(BigInt(info.realtime_ns) / 1_000_000n)).toISOString());
  fact("Host", info.host);
  fact("Kernel", `${info.kernel} ${info.machine}`.trim());
  fact("CPU", info.cpu_model === "" ? "" : `${info.cpu_model}, ${index.cpus.length} CPUs`);
  fact("Kernel events", `${count(info.kernel_events)}${info.kernel_source === "" ? "" : ` from ${info.kernel_source}, clock ${info.kernel_clock}`}`);
  fact("Annotation events", count(info.annotation_events));
  fact("Slices", count(info.slices));
  fact("Recorder", info.recorder);
  if (info.missing.length === 0) return list;
  return h("div", { class: "summary" }, list, h("div", { class: "side" }, h("h2", { class: "sub" }, "Not in this recording"), h("ul", { class: "missing" }, ...info.missing.map((text) => h("li", {}, text)))));
}
