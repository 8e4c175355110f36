// Names of functions, short enough for a box.

const CLOSING: Record<string, string> = { "<": ">", "(": ")", "[": "]" };

/**
 * A C++ or Rust name without template arguments and parameters: `std::map<int, float>::find(int const&)` is `std::map::find`.
 * `operator<` and its kind, `(anonymous namespace)` and a type that a Rust name begins with stay.
 */
export function shortName(name: string): string {
  let short = known.get(name);
  if (short === undefined) {
    if (known.size > 100_000) known.clear();
    short = shortened(name);
    known.set(name, short);
  }
  return short;
}

/** Every box of every frame asks. */
const known = new Map<string, string>();

function shortened(name: string): string {
  let text = "";
  for (let i = 0; i < name.length; i++) {
    const c = name[i]!;
    const close = CLOSING[c];
    // What `operator` is followed by is the operator itself; `::(` is an anonymous namespace or a lambda.
    const operator = c === "(" ? /\boperator$/.test(text) : /\boperator<?$/.test(text);
    const keep = close === undefined || c === "[" || text === "" || operator || name.startsWith("(anonymous namespace)", i) || text.endsWith("::");
    const end = keep ? -1 : closing(name, i);
    if (end < 0) text += c;
    else i = end;
  }
  // Parameters are followed by qualifiers: ` const`, ` [clone .cold]`.
  return text.replace(/ (const|volatile|&&?)$/, "").trim() || name;
}

/** Where the bracket that opens at `from` is closed; -1 nowhere. `->` closes nothing. */
function closing(name: string, from: number): number {
  const open = name[from]!;
  const close = CLOSING[open]!;
  let depth = 0;
  for (let i = from; i < name.length; i++) {
    if (name[i] === open) depth++;
    else if (name[i] === close && name[i - 1] !== "-" && --depth === 0) return i;
  }
  return -1;
}
