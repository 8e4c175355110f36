// Tables that sort by a click on a heading.
import { count } from "../view/units";
import { fill, h } from "./dom";

export interface Column {
  text: string;
  number?: boolean;
  colour?: string;
  /** What the column means, for the pointer that rests on its heading. */
  help?: string;
}

export type Cell = string | number | { value: number | string; text: string; node?: HTMLElement; go?: () => void };

/** What a table shows. */
interface Options {
  columns: Column[];
  rows: Cell[][];
  caption?: string;
  /** Column to sort by at first, largest first. */
  sortBy?: number;
}

/** Rows shown at once; the rest is counted. */
const SHOWN = 300;

/** What a cell is sorted by. */
function valueOf(cell: Cell | undefined): number | string {
  return typeof cell === "object" ? cell.value : (cell ?? "");
}

/** Numbers as numbers, text as people sort it: 2 before 10. */
function compare(a: number | string, b: number | string): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

/** A table whose headings sort. Only the first rows are elements: the page stays quick with a thousand threads. */
export function table(options: Options): HTMLElement {
  const { columns, caption } = options;
  let rows = options.rows;
  let sorted = options.sortBy ?? -1;
  // The largest first: of numbers one looks for the most. Text begins at A (see `sort`).
  let down = true;
  const body = h("tbody", {});
  const more = h("p", { class: "muted", hidden: true });
  const heads = columns.map((column, c) => {
    const sort = (): void => {
      down = sorted === c ? !down : column.number === true;
      sorted = c;
      draw();
    };
    const swatch = column.colour !== undefined && h("i", { class: "colour", style: `--c:${column.colour}` });
    return h("th", { scope: "col", class: column.number ? "number" : "" }, h("button", { type: "button", onclick: sort, title: column.help === "" ? undefined : column.help }, swatch, column.text));
  });
  const draw = (): void => {
    if (sorted >= 0) {
      rows = [...rows].sort((a, b) => compare(valueOf(a[sorted]), valueOf(b[sorted])) * (down ? -1 : 1));
    }
    heads.forEach((head, c) => head.setAttribute("aria-sort", c !== sorted ? "none" : down ? "descending" : "ascending"));
    fill(body, ...rows.slice(0, SHOWN).map((row) => h("tr", {}, ...row.map((cell, c) => tableCell(cell, columns[c]?.number === true)))));
    more.hidden = rows.length <= SHOWN;
    more.textContent = `and ${count(rows.length - SHOWN)} more`;
  };
  draw();
  return h("div", { class: "table" }, h("table", {}, caption !== undefined && h("caption", {}, caption), h("thead", {}, h("tr", {}, ...heads)), body), more);
}

/** A cell with a `go` is a button: it leads to what the number is about. */
function tableCell(cell: Cell, number: boolean): HTMLElement {
  const td = h("td", { class: number ? "number" : "" });
  if (typeof cell !== "object") td.append(typeof cell === "number" ? count(cell) : cell);
  else if (cell.go) td.append(h("button", { type: "button", class: "link", onclick: cell.go }, cell.node ?? cell.text));
  else td.append(cell.node ?? cell.text);
  return td;
}
