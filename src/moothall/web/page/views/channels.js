// Channels: the rooms, one conversation, and beside it a thread or the members.

import { html, useEffect, useRef, useState } from "../ui.js";
import { roomNamed } from "../hall.js";
import { go, roomLink, roomOf } from "../router.js";
import { state, useStore } from "../store.js";
import { Conversation } from "./channels/conversation.js";
import { Members } from "./channels/members.js";
import { Rooms, roomsInOrder } from "./channels/rooms.js";
import { Thread } from "./channels/thread.js";

export function Channels({ argument }) {
  const chosen = roomOf(argument);
  const fallback = useStore((state) => (state.rooms.has("#general") ? "#general" : (roomsInOrder(state)[0]?.name ?? "")));
  const name = chosen || fallback;
  const [thread, setThread] = useState();
  const [showsMembers, setShowsMembers] = useState(false);
  const [showsRooms, setShowsRooms] = useState(false); // on a phone, where there is room for one thing at a time
  const current = useRef();
  current.current = name; // keys come faster than effects
  useEffect(() => {
    setThread(undefined);
    setShowsRooms(false);
  }, [name]);
  useEffect(() => {
    const onKey = (event) => {
      if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) {
        setThread(undefined);
        setShowsMembers(false);
        setShowsRooms(false);
      }
      if (!event.altKey || (event.key !== "ArrowUp" && event.key !== "ArrowDown")) return;
      event.preventDefault();
      const rooms = roomsInOrder(state).map((room) => room.name);
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (rooms.length) go(roomLink(rooms[(rooms.indexOf(current.current) + step + rooms.length) % rooms.length]));
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  if (!name) return html`<p class="alone" role="status">No channels yet.</p>`;
  const room = roomNamed(name);
  const openThread = (messageId) => setThread(room.rootOf(messageId));
  return html`
    <div class="channels" data-rooms=${showsRooms ? "open" : "closed"} data-beside=${thread ? "thread" : showsMembers ? "members" : "none"}>
      <${Rooms} current=${name} onChoose=${() => setShowsRooms(false)} />
      <${Conversation} key=${name} room=${room} openThread=${openThread} showRooms=${() => setShowsRooms(true)} toggleMembers=${() => setShowsMembers(!showsMembers)} />
      ${thread
        ? html`<${Thread} key=${thread} room=${room} root=${thread} onClose=${() => setThread(undefined)} />`
        : html`<${Members} room=${room} />`}
    </div>
  `;
}
