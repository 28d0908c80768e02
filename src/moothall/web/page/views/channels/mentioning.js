// Names for a mention, while it is typed: `@pl` offers @planner.

import { html, useLayoutEffect, useRef, useState } from "../../ui.js";
import { nameOf } from "../../hall.js";
import { state } from "../../store.js";
import { line } from "../../text/unseen.js";

const BEGUN = /(?:^|\s)@([\w-]{0,32})$/;
const MOST_OFFERED = 6;

/** The names that fit to what stands before the cursor. */
export function offered(before, names) {
  const begun = BEGUN.exec(before);
  if (!begun) return [];
  const wanted = begun[1].toLowerCase();
  return [...new Set(names)].filter((name) => name.toLowerCase().startsWith(wanted) && name.toLowerCase() !== wanted).sort().slice(0, MOST_OFFERED);
}

/** The text with the name in place of what was begun, and where the cursor is then. */
export function completed(text, cursor, name) {
  const before = text.slice(0, cursor).replace(/@[\w-]{0,32}$/, `@${name} `);
  return { text: before + text.slice(cursor), cursor: before.length };
}

/** What the entry needs: a handler of keys that returns true for those it took, attributes, and the list to show. */
export function useMentions(room, field, text, change) {
  const [chosen, setChosen] = useState(0);
  const [refused, setRefused] = useState(); // the text for which the person closed the list
  const wanted = useRef(); // where the cursor goes, with the text: the next key may come before the next frame
  useLayoutEffect(() => {
    if (wanted.current !== undefined) field.current.setSelectionRange(wanted.current, wanted.current);
    wanted.current = undefined;
  }, [text]);
  const cursor = field.current?.selectionStart ?? text.length;
  const names = refused === text || !room.members ? [] : offered(text.slice(0, cursor), [...room.members].filter((id) => id !== state.me?.id).map(nameOf));
  const place = Math.min(chosen, names.length - 1);
  const take = (name) => {
    const next = completed(text, cursor, name);
    change(next.text);
    setChosen(0);
    wanted.current = next.cursor;
  };
  const onKey = (event) => {
    if (!names.length) return false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") setChosen((place + (event.key === "ArrowDown" ? 1 : -1) + names.length) % names.length);
    else if (event.key === "Tab" || event.key === "Enter") take(names[place]);
    else if (event.key === "Escape") setRefused(text);
    else return false;
    event.preventDefault();
    return true;
  };
  const attributes = names.length ? { "aria-controls": "mentionable", "aria-activedescendant": `mentionable-${place}`, "aria-autocomplete": "list" } : {};
  const list = names.length > 0 && html`
    <ul id="mentionable" class="mentionable" role="listbox" aria-label="Names">
      ${names.map((name, number) => html`<li key=${name} id="mentionable-${number}" role="option" aria-selected=${String(number === place)}
        onMouseDown=${(event) => { event.preventDefault(); take(name); }}><bdi>@${line(name, 32)}</bdi></li>`)}
    </ul>`;
  return { onKey, attributes, list };
}
