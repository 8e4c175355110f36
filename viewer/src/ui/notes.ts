// Notes: times that a person marked and wrote something about. The page's address keeps them, so a link carries them.
import { duration, instant } from "../view/units";
import type { App } from "./app";
import { h } from "./dom";

export interface Note {
  t0: number;
  t1: number;
  text: string;
}

export function notesTab(app: App): HTMLElement {
  const add = h("button", { type: "button", class: "tool", onclick: () => app.addNote() }, "Add note (b)");
  if (app.notes.length === 0) {
    return h("div", { class: "empty" }, h("p", {}, "No notes yet."), h("p", { class: "muted" }, "Press b to mark the selection, the marked area or the time under the pointer and write about it. Notes are kept in the page's address: copy the address to share them."), add);
  }
  const rows = app.notes.map((note, i) => {
    const input = h("input", { type: "text", class: "note-text", value: note.text, "aria-label": `text of note ${i + 1}`, placeholder: "what is there to see" });
    input.addEventListener("input", () => {
      note.text = input.value;
      app.changed();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") app.shell.canvas.focus();
    });
    const when = note.t1 > note.t0 ? `${instant(note.t0 - app.origin)}, ${duration(note.t1 - note.t0)}` : instant(note.t0 - app.origin);
    return h(
      "li",
      {},
      h("span", { class: "note-number" }, String(i + 1)),
      h("button", { type: "button", class: "link", onclick: () => app.showNote(note) }, when),
      input,
      h("button", { type: "button", class: "tool", "aria-label": `delete note ${i + 1}`, onclick: () => app.removeNote(note) }, "Delete"),
    );
  });
  return h("div", {}, h("ol", { class: "notes" }, ...rows), add);
}
