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

/** The host, or the address of a mail. Of a long one, the end: its beginning may be any name. */
const whereTo = ({ protocol, pathname, host }) => line(protocol === "mailto:" ? pathname : host, 4096).replace(/^.+(?=.{80}$)/, "…");

/** A link that tells where it leads. `text` is what the author wants it to say, or undefined for the address itself. */
export function link(url, text) {
  const attributes = { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow", class: "out" };
  const address = line(url.href, 200);
  return h("a", attributes, text ?? visible(address), (text ?? address !== url.href) && h("span", { class: "host" }, ` (${whereTo(url)})`));
}
