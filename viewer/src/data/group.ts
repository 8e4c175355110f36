/** Groups `items` by `key`, in order of appearance (Map.groupBy, which Node 20 lacks). */
export function groupBy<K, T>(items: Iterable<T>, key: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  // A Map keeps its keys in the order in which they were added, so the result has the order of `items`.
  for (const item of items) {
    const k = key(item);
    const group = groups.get(k);
    if (group) group.push(item);
    else groups.set(k, [item]);
  }
  return groups;
}
