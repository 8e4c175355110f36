// Circles in a graph of imports.

/**
 * The first circle in `graph`, a map from a file to the files that it imports: its files in order, the first one again at the
 * end; undefined without one. Depth first: an import of a file that is still being visited closes a circle.
 */
export function circleIn(graph) {
  const done = new Set();
  const path = [];
  const visit = (file) => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return undefined;
    path.push(file);
    for (const next of graph.get(file) ?? []) {
      const found = visit(next);
      if (found) return found;
    }
    path.pop();
    done.add(file);
    return undefined;
  };
  for (const file of graph.keys()) {
    const found = visit(file);
    if (found) return found;
  }
  return undefined;
}
