// Notes: times that a person marked and wrote something about. The address keeps them, so a link carries them.
import type { Navigation } from "./navigation";
import type { Note, ViewState } from "./state";

export class Notes {
  constructor(
    private readonly state: ViewState,
    private readonly navigation: Navigation,
  ) {}

  /** Marks the selection, the area, or the time under the pointer. */
  add(): Note {
    const { area, selected, view, cursor, notes } = this.state;
    // With the keyboard alone there is no pointer: then the middle of the view.
    const at = cursor ?? (view.t0 + view.t1) / 2;
    const [t0, t1] = area ? [area.t0, area.t1] : selected ? [selected.start, selected.end] : [at, at];
    const note = { t0: Math.max(0, Math.round(t0)), t1: Math.max(0, Math.round(t1)), text: "" };
    notes.push(note);
    // Notes are numbered in the order of time; the same array stays, the state owns it.
    notes.sort((a, b) => a.t0 - b.t0);
    this.state.notesChanged.emit();
    this.state.changed();
    return note;
  }

  remove(note: Note): void {
    this.state.notes.splice(this.state.notes.indexOf(note), 1);
    this.state.notesChanged.emit();
    this.state.changed();
  }

  write(note: Note, text: string): void {
    note.text = text;
    this.state.changed();
  }

  show(note: Note): void {
    if (note.t1 > note.t0) this.navigation.showFitted(note.t0, note.t1, 0.6);
    else this.navigation.showAround(note.t0);
  }
}
