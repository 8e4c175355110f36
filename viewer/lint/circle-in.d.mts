/** The first circle in `graph`, a map from a file to the files that it imports; undefined without one. */
export function circleIn(graph: Map<string, string[]>): string[] | undefined;
