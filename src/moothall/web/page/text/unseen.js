// Text of others as it is safe to look at. What is not seen, or turns text around, is shown as its code point; piles of
// marks on one letter are cut. Nothing here makes markup: the result is texts, and spans that this page makes.

import { h } from "../vendor/preact.js";

const MOST_MARKS = 6; // on one letter; more than any written language needs

// Controls, direction marks, invisible fillers, tags, selectors that hide data, line separators, halves of characters.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|\p{Cs}/u;
const MARKS = new RegExp(`(\\p{M}{${MOST_MARKS}})\\p{M}+`, "gu");
const JOINERS = /[\u200c\u200d]/;
const JOINED = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{M}\ufe0f]|(?!\p{Script=Latin}|\p{Script=Greek}|\p{Script=Cyrillic})\p{L}/u;

const codePoint = (letter) => `U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Children for a component: the text, with everything unseen made visible. */
export function visible(text) {
  const cut = text.replace(MARKS, "$1\u2026");
  if (!UNSEEN.test(cut)) return cut;
  const parts = [];
  let plain = "";
  let previous = "";
  let run; // of one unseen character: { letter, count }
  const endRun = () => {
    if (!run) return;
    parts.push(h("span", { class: "unseen" }, codePoint(run.letter) + (run.count > 1 ? ` ×${run.count}` : "")));
    run = undefined;
  };
  const letters = [...cut];
  letters.forEach((letter, place) => {
    const isShown = UNSEEN.test(letter) && !(JOINERS.test(letter) && JOINED.test(previous) && JOINED.test(letters[place + 1] ?? ""));
    previous = letter;
    if (!isShown) {
      endRun();
      plain += letter;
    } else if (run?.letter === letter) {
      run.count++;
    } else {
      endRun();
      if (plain) parts.push(plain);
      plain = "";
      run = { letter, count: 1 };
    }
  });
  endRun();
  if (plain) parts.push(plain);
  return parts;
}

/** The same as one line of plain text, for titles and labels. Objects are JSON: what they have as `toString` is a stranger's. */
export function line(text, most = 120) {
  const clean = [...String(typeof text === "object" ? JSON.stringify(text) : text).replace(/\s+/gu, " ").replace(MARKS, "$1\u2026")]
    .map((letter) => (UNSEEN.test(letter) && !JOINERS.test(letter) ? "\ufffd" : letter));
  return clean.length > most ? `${clean.slice(0, most - 1).join("")}…` : clean.join("");
}
