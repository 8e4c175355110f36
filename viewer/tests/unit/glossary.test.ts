// The help shows docs/glossary.md: each term of it, and nothing of its Markdown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { classDefinition, GLOSSARY, parseGlossary } from "../../src/data/glossary";
import text from "../../../docs/glossary.md";

void test("every term of the document is there once", () => {
  // Counted without the parser: each term is bold at the beginning of its row.
  const inText = [...text.matchAll(/^\| \*\*(.+?)\*\*/gm)].map((match) => match[1]!);
  const terms = GLOSSARY.flatMap((section) => section.terms);
  assert(inText.length > 30, `${inText.length} terms`);
  assert.equal(terms.length, inText.length);
  for (const [i, name] of inText.entries()) assert(terms[i]!.name.startsWith(name), `${terms[i]!.name} is not ${name}`);
});

void test("terms and meanings are plain text", () => {
  for (const { title, head, terms } of GLOSSARY) {
    for (const { name, key, meaning } of terms) {
      assert(meaning.length > 10, `${name}: ${meaning}`);
      assert.doesNotMatch(`${title}${head}${name}${key}${meaning}`, /[*`|]|\]\(/);
    }
  }
});

void test("a class is found by its key, and a later one has no definition", () => {
  assert.match(classDefinition("lock_wait") ?? "", /spins on a lock/);
  assert.equal(classDefinition("class_of_a_later_version"), undefined);
});

void test("a heading without terms is an error, and its words of a link are kept", () => {
  assert.throws(() => parseGlossary("# Glossary\n\n## Analysis\n\nNo table.\n"), /no terms under "Analysis"/);
  const [section] = parseGlossary("## A [b](c.md)\n\n| term | meaning |\n|---|---|\n| **x**, **y** | of `z` |\n");
  assert.deepEqual(section, { title: "A b", head: "meaning", terms: [{ name: "x, y", key: "", meaning: "of z" }] });
});
