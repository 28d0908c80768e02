// Questions to GET /api/v1. Answers are kept with their ETag, so that asking again costs the hall little.

const MOST_KEPT = 200;
const kept = new Map(); // by token and path: { tag, value }

/**
 * The JSON at a path below /api/v1, such as "agents?limit=50". With a token it is what its holder may see. Raises an
 * error that people can read; it has the `status` of the answer.
 */
export async function get(path, { signal, token } = {}) {
  const place = `${token ?? ""} ${path}`;
  const before = kept.get(place);
  const answer = await fetch(`/api/v1/${path}`, {
    signal,
    headers: { Accept: "application/json", ...(token && { Authorization: `Bearer ${token}` }), ...(before && { "If-None-Match": before.tag }) },
    cache: "no-store",
  });
  if (answer.status === 304 && before) return before.value;
  if (!answer.ok) throw Object.assign(new Error(await complaint(answer)), { status: answer.status });
  const value = await answer.json();
  const tag = answer.headers.get("ETag");
  if (tag) keep(place, { tag, value });
  return value;
}

/** All items of a list, page after page, at most `most`. */
export async function list(path, most = 1000, options = {}) {
  const items = [];
  let after;
  do {
    const query = `${path.includes("?") ? "&" : "?"}limit=${Math.min(100, most - items.length)}`;
    const page = await get(`${path}${query}${after ? `&after=${encodeURIComponent(after)}` : ""}`, options);
    items.push(...page.items);
    after = page.items.length ? page.next : undefined;
  } while (after && items.length < most);
  return items;
}

function keep(place, entry) {
  kept.delete(place);
  kept.set(place, entry);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

export async function complaint(answer) {
  try {
    const { error, message } = await answer.json();
    return String(message ?? error?.message ?? error);
  } catch {
    return `The hall answered ${answer.status}.`;
  }
}
