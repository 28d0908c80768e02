// Markdown as agents write it, as components: paragraphs, code, lists, quotes, headings and tables. No HTML passes: a
// tag in a text is text.

import { h } from "../vendor/preact.js";
import { inline } from "./inline.js";
import { visible } from "./unseen.js";

const MOST_QUOTES = 4; // inside each other
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,30})/;
const HEADING = /^(#{1,6})\s+(.+?)#*$/;
const ITEM = /^(\s{0,12})(?:[-*+]|(\d{1,6})[.)])\s+(.*)$/;
const RULE = /^ {0,3}(?:-{3,}|\*{3,}|_{3,})\s*$/;
const TABLE_RULE = /^\s*(?:\|\s*)?:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*){0,30}\|?\s*$/;

/** The blocks of a text. `context` is that of `inline`. */
export function markdown(text, context, depth = 0) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let place = 0;
  while (place < lines.length) {
    const { block, next } = blockAt(lines, place, context, depth);
    if (block) blocks.push(block);
    place = next;
  }
  return blocks;
}

function blockAt(lines, place, context, depth) {
  const line = lines[place];
  if (!line.trim()) return { next: place + 1 };
  const fence = FENCE.exec(line);
  if (fence) return codeBlock(lines, place, fence);
  const heading = HEADING.exec(line);
  if (heading) return { block: h("p", { class: "heading", dir: "auto" }, inline(heading[2], context)), next: place + 1 };
  if (RULE.test(line)) return { block: h("hr"), next: place + 1 };
  if (line.startsWith(">") && depth < MOST_QUOTES) return quote(lines, place, context, depth);
  if (ITEM.test(line)) return listing(lines, place, context);
  if (line.includes("|") && TABLE_RULE.test(lines[place + 1] ?? "")) return table(lines, place, context);
  return paragraph(lines, place, context);
}

function codeBlock(lines, place, [, marks, language]) {
  const isEnd = (line) => line.trim().startsWith(marks) && line.trim().replaceAll(marks[0], "") === "";
  let end = place + 1;
  while (end < lines.length && !isEnd(lines[end])) end++;
  const code = lines.slice(place + 1, end).join("\n");
  const label = language ? `Code, ${language}` : "Code";
  const block = h("pre", { tabIndex: 0, dir: "ltr", "aria-label": label, role: "group", "data-language": language || undefined }, h("code", null, visible(code)));
  return { block, next: end + 1 };
}

function quote(lines, place, context, depth) {
  let end = place;
  while (end < lines.length && lines[end].startsWith(">")) end++;
  const inner = lines.slice(place, end).map((line) => line.replace(/^> ?/, "")).join("\n");
  return { block: h("blockquote", null, markdown(inner, context, depth + 1)), next: end };
}

function listing(lines, place, context) {
  const isOrdered = ITEM.exec(lines[place])[2] !== undefined;
  const items = [];
  let end = place;
  for (; end < lines.length; end++) {
    const item = ITEM.exec(lines[end]);
    const level = item && Math.min(3, item[1].length >> 1);
    if (item && (level > 0 || (item[2] !== undefined) === isOrdered)) items.push({ level, text: item[3], value: item[2] });
    else if (items.length && /^\s{2,}\S/.test(lines[end]) && !FENCE.test(lines[end])) items.at(-1).text += ` ${lines[end].trim()}`;
    else break;
  }
  const children = items.map(({ level, text, value }) =>
    h("li", { class: `level-${level}${value === undefined ? " bullet" : " number"}`, dir: "auto", value: value === undefined ? undefined : Number(value) }, inline(text, context)),
  );
  return { block: h(isOrdered ? "ol" : "ul", null, children), next: end };
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|", 32).map((cell) => cell.trim());

function table(lines, place, context) {
  let end = place + 2;
  while (end < lines.length && lines[end].includes("|")) end++;
  const row = (line, tag) => h("tr", null, cells(line).map((cell) => h(tag, { dir: "auto" }, inline(cell, context))));
  const head = h("thead", null, row(lines[place], "th"));
  const body = h("tbody", null, lines.slice(place + 2, end).map((line) => row(line, "td")));
  const block = h("div", { class: "table", tabIndex: 0, role: "group", "aria-label": "Table" }, h("table", null, head, body));
  return { block, next: end };
}

const STARTS = (line) => !line.trim() || FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || line.startsWith(">");

function paragraph(lines, place, context) {
  let end = place + 1;
  while (end < lines.length && !STARTS(lines[end])) end++;
  const children = lines.slice(place, end).flatMap((line, number) => (number ? [h("br"), ...inline(line, context)] : inline(line, context)));
  return { block: h("p", { dir: "auto" }, children), next: end };
}
