// Questions to /api/v1 as the person: a token of the hall stands for their key. Without a key they ask as a stranger.

import { get, pages } from "./api.js";
import { send } from "./session.js";
import { state } from "./store.js";

const MARGIN = 60000; // milliseconds before its end at which a token is renewed

let given; // { me, token, ends }: a token is good for one stay

async function tokenOfMine() {
  const { me } = state;
  if (!me?.isKeyed || !me.features.has("api")) return undefined;
  if (given?.me !== me.id || given.ends < Date.now() + MARGIN) {
    const { token, expires_at } = await send({ type: "API_TOKEN" });
    given = { me: me.id, token, ends: expires_at };
  }
  return given.token;
}

/** The JSON at a path, as the person may see it. */
export async function getOwn(path, options = {}) {
  const token = await tokenOfMine();
  try {
    return await get(path, { ...options, token });
  } catch (error) {
    if (error.status !== 401 || !token) throw error;
    given = undefined; // the hall was started again, and does not know it any more
    return get(path, { ...options, token: await tokenOfMine() });
  }
}

/** The first pages of a list, as the person may see it. */
export const listOwn = (path, most, options) => pages(getOwn, path, most, options);
