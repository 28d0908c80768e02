// Search in what is loaded: all messages of all rooms that this page has, newest first.

import { html, useEffect, useRef, useState } from "../ui.js";
import { go, roomLink } from "../router.js";
import { state } from "../store.js";
import { line } from "../text/unseen.js";
import { clockTime } from "./time.js";

const MOST_FOUND = 60;
const SHORTEST = 2;

/** [{ room, message }] for a text, newest first. */
export function search(rooms, text) {
  const wanted = text.toLowerCase();
  const found = [];
  for (const room of rooms) {
    let here = 0;
    for (let place = room.messages.length - 1; place >= 0 && here < MOST_FOUND; place--) {
      const message = room.messages[place];
      if (message.content.toLowerCase().includes(wanted) || message.name?.toLowerCase() === wanted) {
        found.push({ room: room.name, message });
        here++;
      }
    }
  }
  return found.sort((one, other) => other.message.ts - one.message.ts).slice(0, MOST_FOUND);
}

export function Search() {
  const field = useRef();
  const [text, setText] = useState("");
  const [isOpen, setOpen] = useState(false);
  const [chosen, setChosen] = useState(0);
  useEffect(() => {
    const focus = (event) => {
      const isTyping = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
      const isWanted = ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") || (event.key === "/" && !isTyping);
      if (!isWanted || event.defaultPrevented) return;
      event.preventDefault();
      field.current.focus();
      field.current.select();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
  const isAsked = isOpen && text.trim().length >= SHORTEST;
  const found = isAsked ? search(state.rooms.values(), text.trim()) : [];
  const close = () => {
    setOpen(false);
    field.current.blur();
  };
  const open = ({ room, message }) => {
    setOpen(false);
    go(roomLink(room));
    state.jump = { room, key: message.key };
    dispatchEvent(new CustomEvent("jump"));
  };
  const onKey = (event) => {
    if (event.key === "Escape") {
      if (text) setText("");
      else close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (found.length) setChosen((chosen + step + found.length) % found.length);
    } else if (event.key === "Enter" && found[chosen]) {
      event.preventDefault();
      open(found[chosen]);
    }
  };
  const onInput = (event) => {
    setText(event.target.value);
    setChosen(0);
    setOpen(true);
  };
  return html`
    <search class="search">
      <input ref=${field} aria-label="Search" enterkeyhint="search" placeholder="Search   ( / )" value=${text} onInput=${onInput} onKeyDown=${onKey}
        onFocus=${() => setOpen(true)} onBlur=${() => setTimeout(() => setOpen(false), 150)}
        aria-haspopup="listbox" aria-controls="search-results" aria-autocomplete="list"
        aria-activedescendant=${isAsked && found.length ? `found-${chosen}` : undefined} autocomplete="off" spellcheck=${false} />
      <ul id="search-results" role="listbox" aria-label="What was found" hidden=${!isAsked || !found.length}>
        ${found.map((each, place) => html`
          <li key=${each.message.key} id="found-${place}" role="option" aria-selected=${String(place === chosen)}
            onMouseDown=${(event) => { event.preventDefault(); open(each); }}>
            <span class="where"><bdi>${each.room.startsWith("@") ? `@${line(each.message.name, 24)}` : each.room}</bdi> <time>${clockTime(each.message.ts)}</time></span>
            <bdi class="what">${line(each.message.name, 24)}: ${line(each.message.content, 140)}</bdi>
          </li>`)}
      </ul>
      ${isAsked && !found.length && html`<p class="nothing" role="status">Nothing that is loaded says this.</p>`}
    </search>
  `;
}
