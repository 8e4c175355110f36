// The terms of docs/glossary.md. The file is built into the page: a report opens without a network, so a link could lead nowhere.
import text from "../../../docs/glossary.md";

export interface Term {
  /** The first cell of its row, as plain text. */
  name: string;
  /** Classes of the account: their key in the index; "" for all other terms. */
  key: string;
  meaning: string;
}

/** One heading of the document, with the rows of the table below it. */
export interface Section {
  title: string;
  /** Above the column of definitions: the beginning of each, or "meaning". */
  head: string;
  terms: Term[];
}

/** Markdown's marks are left out: the dialog shows text. A link keeps its words. */
function plain(markdown: string): string {
  return markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/\*\*|[*`]/g, "").trim();
}

/** `a | b` of a table's line, without the bars at its ends. */
function cells(line: string): string[] {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

/**
 * The sections of a glossary. Each is a heading of the second level with one table, of two columns (term, meaning) or three
 * (class, key, meaning). Throws where a heading has no terms: a document of another form must not make an empty help.
 */
export function parseGlossary(markdown: string): Section[] {
  return markdown.split(/^## /m).slice(1).map((part) => {
    const [title = "", ...lines] = part.split("\n");
    const [head, , ...rows] = lines.filter((line) => line.startsWith("|")).map(cells);
    if (!head || rows.length === 0) throw new Error(`glossary: no terms under "${title}"`);
    const terms = rows.map((row): Term => ({ name: plain(row[0]!), key: row.length > 2 ? plain(row[1]!) : "", meaning: plain(row.at(-1)!) }));
    return { title: plain(title), head: plain(head.at(-1)!), terms };
  });
}

export const GLOSSARY: readonly Section[] = parseGlossary(text);

const CLASSES = new Map(GLOSSARY.flatMap(({ terms }) => terms.filter(({ key }) => key !== "").map(({ key, meaning }) => [key, meaning])));

/** The definition of the account's class with this key; undefined: the glossary has none. */
export function classDefinition(key: string): string | undefined {
  return CLASSES.get(key);
}
