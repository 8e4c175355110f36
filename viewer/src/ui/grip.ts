// The bar above the panel that changes the panel's height, by mouse and by keys.
import { h } from "./dom";

// CSS pixels: the tabs alone remain visible at LOWEST.
const LOWEST = 36;
/** Share of the window that the panel may take. */
const HIGHEST = 0.75;
const KEY_STEP = 24;

/** A separator, as the ARIA pattern for splitters has it: focusable, with its value, moved by arrow keys. */
export function gripFor(panel: HTMLElement): HTMLElement {
  const grip = h("div", {
    class: "grip",
    role: "separator",
    tabindex: 0,
    "aria-orientation": "horizontal",
    "aria-label": "height of the details, arrow keys change it",
    "aria-valuemin": LOWEST,
    "aria-valuemax": 2000,
    "aria-valuenow": 232,
  });
  const set = (height: number): void => {
    const fitting = Math.round(Math.max(LOWEST, Math.min(height, window.innerHeight * HIGHEST)));
    panel.style.height = `${fitting}px`;
    grip.setAttribute("aria-valuenow", String(fitting));
  };
  grip.addEventListener("pointerdown", (event) => {
    // The panel grows upwards: its height and the pointer's place add up to the same all along.
    const from = panel.offsetHeight + event.clientY;
    grip.setPointerCapture(event.pointerId);
    const move = (e: PointerEvent): void => set(from - e.clientY);
    grip.addEventListener("pointermove", move);
    grip.addEventListener("pointerup", () => grip.removeEventListener("pointermove", move), { once: true });
  });
  grip.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    event.stopPropagation();
    set(panel.offsetHeight + (event.key === "ArrowUp" ? KEY_STEP : -KEY_STEP));
  });
  return grip;
}
