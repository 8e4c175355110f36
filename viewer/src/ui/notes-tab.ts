// The tab with the notes.
import { duration, instant } from "../view/units";
import { h } from "./dom";
import type { Notes } from "./notes";
import type { Note, ViewState } from "./state";

/** `add` marks a new note and lets the person write it; `leave` is called when the person has written. */
export function notesTab(state: ViewState, notes: Notes, add: () => void, leave: () => void): HTMLElement {
  const button = h("button", { type: "button", class: "tool", onclick: add }, "Add note (b)");
  if (state.notes.length === 0) {
    return h(
      "div",
      { class: "empty" },
      h("p", {}, "No notes yet."),
      h("p", { class: "muted" }, "Press b to mark the selection, the marked area or the time under the pointer and write about it. Notes are kept in the page's address: copy the address to share them."),
      button,
    );
  }
  return h("div", {}, h("ol", { class: "notes" }, ...state.notes.map((note, i) => row(state, notes, note, i + 1, leave))), button);
}

/** One note: its number as on the axis, its time as a link, its text, and a button to delete it. */
function row(state: ViewState, notes: Notes, note: Note, number: number, leave: () => void): HTMLElement {
  const input = h("input", { type: "text", class: "note-text", value: note.text, "aria-label": `text of note ${number}`, placeholder: "what is there to see" });
  input.addEventListener("input", () => notes.write(note, input.value));
  // Every letter is kept at once, so Enter and Escape only leave the field.
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") leave();
  });
  const start = instant(note.t0 - state.origin);
  return h(
    "li",
    {},
    h("span", { class: "note-number" }, String(number)),
    h("button", { type: "button", class: "link", onclick: () => notes.show(note) }, note.t1 > note.t0 ? `${start}, ${duration(note.t1 - note.t0)}` : start),
    input,
    h("button", { type: "button", class: "tool", "aria-label": `delete note ${number}`, onclick: () => notes.remove(note) }, "Delete"),
  );
}
