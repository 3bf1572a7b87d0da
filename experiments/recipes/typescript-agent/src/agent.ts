// The agent, as far as it matters here: what it selects is what the model gets.
import { select, type Item } from "./select.ts";

export async function answer(request: string, items: Item[], model: (prompt: string, tools: string[]) => Promise<string>) {
  return model(request, select(request, items).map((row) => row.id));
}
