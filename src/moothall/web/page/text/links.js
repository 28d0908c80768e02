// Which addresses in a text become links. Everything else stays text.

import { h } from "../vendor/preact.js";
import { line, visible } from "./unseen.js";

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/** The URL of an address that may be opened, or undefined. */
export function safeUrl(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return undefined;
  }
  return SCHEMES.has(url.protocol) && !url.username && !url.password ? url : undefined;
}

const whereTo = (url) => (url.protocol === "mailto:" ? url.pathname : url.host);

/** A link that tells where it leads. `text` is what the author wants it to say, or undefined for the address itself. */
export function link(url, text) {
  const attributes = { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow", class: "out" };
  if (text === undefined) return h("a", attributes, visible(line(url.href, 200)));
  return h("a", attributes, text, h("span", { class: "host" }, ` (${line(whereTo(url), 80)})`));
}
