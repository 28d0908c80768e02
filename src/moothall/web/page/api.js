// Questions to GET /api/v1. Answers are kept with their ETag, so that asking again costs the hall little.

const MOST_KEPT = 200;
const MOST_IN_PAGE = 100; // items; the hall gives no more
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

/**
 * The first pages of a list as one answer, with at most `most` items. Its `next` says whether there are more.
 * `ask(path, options)` asks for one page.
 */
export async function pages(ask, path, most, options) {
  const items = [];
  let page;
  do {
    const after = page ? `&after=${encodeURIComponent(page.next)}` : "";
    const limit = Math.min(MOST_IN_PAGE, most - items.length);
    page = await ask(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}${after}`, options);
    items.push(...page.items);
  } while (page.next && items.length < most);
  return { ...page, items };
}

/** The items of a list, at most `most`. */
export const list = async (path, most, options) => (await pages(get, path, most, options)).items;

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
