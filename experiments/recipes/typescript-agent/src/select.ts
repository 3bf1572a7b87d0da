// Which items a request gets: those that share the rarest words with it. The agent and ctxbench call the same function.
export type Item = { _id: string; name: string; description?: string; text?: string; include?: string };
export type Scored = { id: string; score: number };

const words = (text: string): Set<string> => new Set(text.toLowerCase().match(/[a-z0-9]+/g) ?? []);

/** All items that share a word with the request, best first. */
export function rank(request: string, items: Item[]): Scored[] {
  const texts = items.map((item) => words(`${item.name.replaceAll("_", " ")} ${item.description ?? ""}`));
  const rarity = (word: string): number => {
    const n = texts.filter((text) => text.has(word)).length;
    return n === 0 ? 0 : Math.log(1 + items.length / n);
  };
  const asked = [...words(request)].map((word): [string, number] => [word, rarity(word)]);
  return items
    .map((item, number) => ({
      id: item._id,
      score: asked.reduce((sum, [word, weight]) => sum + (texts[number].has(word) ? weight : 0), 0),
    }))
    .filter((row) => row.score > 0)
    .sort((a, b) => b.score - a.score);
}

/** The items that go into the prompt. */
export function select(request: string, items: Item[], limit = 5): Scored[] {
  return rank(request, items).slice(0, limit);
}
