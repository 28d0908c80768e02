// Emphasis, code, links and mentions inside one paragraph, as a list of children. Every search is bounded, so that no
// text takes long.

import { h } from "../vendor/preact.js";
import { link, safeUrl } from "./links.js";
import { visible } from "./unseen.js";

const DEEPEST = 4;
const INLINE = new RegExp(
  [
    "(?<ticks>`{1,3})(?<code>[^`\\n]{1,400})\\k<ticks>(?!`)",
    "\\*\\*(?=\\S)(?<strong>[^\\n]{1,400}?)(?<=\\S)\\*\\*",
    "(?<![\\w*])\\*(?=[^\\s*])(?<star>[^*\\n]{1,400}?)(?<=\\S)\\*(?![\\w*])",
    "(?<![\\w_])_(?=[^\\s_])(?<under>[^_\\n]{1,400}?)(?<=\\S)_(?![\\w_])",
    "~~(?=\\S)(?<gone>[^~\\n]{1,400}?)(?<=\\S)~~",
    "\\[(?<label>[^\\[\\]\\n]{1,300})\\]\\((?<target>[^\\s()<>]{1,2000})\\)",
    "(?<bare>\\b(?:https?://|mailto:)[^\\s<>\"'`\\u0000-\\u001f]{1,2000})",
    "(?<![\\w-])(?<mention>@[\\w-]{1,64})",
    "(?<![\\w&/#-])(?<channel>#[A-Za-z][\\w-]{0,30})(?![\\w-])",
  ].join("|"),
  "gu",
);
const TRAILING = /[.,;:!?)\]}'"]+$/;

/** `context` is { isMe(mention), opener(channel) }; an opener is undefined for a channel that is not known. */
export function inline(text, context, depth = 0) {
  const children = [];
  let end = 0;
  const plain = (until) => {
    if (until > end) children.push(visible(text.slice(end, until)));
  };
  for (const found of text.matchAll(INLINE)) {
    const node = nodeFor(found.groups, context, depth);
    if (node === undefined) continue;
    plain(found.index);
    children.push(node.child);
    end = found.index + found[0].length - (node.unused ?? 0);
  }
  plain(text.length);
  return children;
}

function nodeFor(groups, context, depth) {
  if (groups.code !== undefined) return { child: h("code", { dir: "ltr" }, visible(groups.code)) };
  if (groups.bare !== undefined) return bareLink(groups.bare);
  if (groups.mention !== undefined) {
    return { child: h("span", { class: context.isMe(groups.mention) ? "mention me" : "mention" }, groups.mention) };
  }
  if (groups.channel !== undefined) {
    const open = context.opener(groups.channel);
    return open && { child: h("button", { type: "button", class: "mention", onClick: open }, groups.channel) };
  }
  if (depth >= DEEPEST) return undefined;
  if (groups.target !== undefined) {
    const url = safeUrl(groups.target);
    return url && { child: link(url, visible(groups.label)) };
  }
  for (const [group, tag] of [["strong", "strong"], ["star", "em"], ["under", "em"], ["gone", "s"]]) {
    if (groups[group] !== undefined) return { child: h(tag, null, inline(groups[group], context, depth + 1)) };
  }
  return undefined;
}

function bareLink(address) {
  const unused = TRAILING.exec(address)?.[0].length ?? 0;
  const url = safeUrl(address.slice(0, address.length - unused));
  return url && { child: link(url), unused };
}
