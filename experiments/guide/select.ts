// Asks `ctxbench serve` which items the prompt of a request should get. For Node, Deno, Bun and browsers; see serve.md.
export type Item = {
  id: string;
  type: string; // tool, rule, reference, skill ...
  name: string;
  mode: string;
  tokens: number;
  score?: number;
  probability?: number;
  rule?: string;
};
export type Answer = { selector: string; items: Item[]; left_out: Item[]; prompt_tokens: number; session?: object };
export type Request = {
  text: string;
  history?: { role: string; content: string }[];
  session?: object; // `session` of the answer before
  preset?: string;
  set?: Record<string, string | number | boolean>;
  near?: number;
};

export class SelectError extends Error {
  status: number;

  constructor(status: number, detail: string) {
    super(detail);
    this.status = status;
  }
}

/** The items for a request, best first; an error within `milliseconds` if there are none, so that you can go on. */
export async function select(request: Request, url = "http://127.0.0.1:8377", token = "", milliseconds = 1000) {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (token) headers["Authorization"] = `Bearer ${token}`;
  const signal = AbortSignal.timeout(milliseconds);
  const response = await fetch(`${url}/select`, { method: "POST", headers, body: JSON.stringify(request), signal });
  const body = await response.json();
  if (!response.ok) throw new SelectError(response.status, body.detail);
  return body as Answer;
}
