// The list of rooms: channels first, then direct talks, with what is unread.

import { html, useState } from "../../ui.js";
import { nameOf } from "../../hall.js";
import { go, roomLink } from "../../router.js";
import { createChannel } from "../../session.js";
import { notify, state, useStore } from "../../store.js";
import { line } from "../../text/unseen.js";
import { Dialog } from "../../parts/dialog.js";

const CHANNEL = "#?[A-Za-z0-9_\\-]{1,31}";

const isShown = (room) => room.isDirect || state.channels.has(room.name) || room.isJoined;

const MAIN = "#general";
const MOST_LISTED = 200; // channels, besides those of the person

/** Channels by name, #general first; then talks, the latest first. */
export function roomsInOrder({ rooms }) {
  const shown = [...rooms.values()].filter(isShown);
  const listed = shown.filter((room) => !room.isDirect).sort((one, other) => (other.name === MAIN) - (one.name === MAIN) || (one.name < other.name ? -1 : 1))
    .filter((room, place) => place < MOST_LISTED || room.isJoined || room.isOpen);
  const direct = shown.filter((room) => room.isDirect).sort((one, other) => (other.messages.at(-1)?.ts ?? 0) - (one.messages.at(-1)?.ts ?? 0));
  return [...listed, ...direct];
}

export function Rooms({ current, onChoose }) {
  // A text of all that is shown here: nothing else makes the list render again.
  useStore((state) => roomsInOrder(state).map((room) => `${room.name} ${room.unread} ${room.mentions} ${room.isJoined} ${nameOf(room.name)}`).join());
  const isMember = useStore((state) => state.me !== null);
  const hasMore = useStore((state) => state.hasMoreChannels);
  const [isCreating, setCreating] = useState(false);
  const rooms = roomsInOrder(state);
  const row = (room) => html`<${RoomTab} key=${room.name} room=${room} isCurrent=${room.name === current} isMember=${isMember} onChoose=${onChoose} />`;
  const direct = rooms.filter((room) => room.isDirect);
  const hidden = [...state.rooms.values()].filter(isShown).length - rooms.length;
  return html`
    <section class="rooms" aria-label="Rooms" onKeyDown=${moveFocus}>
      <div class="heading"><h2 id="rooms-channels">Channels</h2>
        ${isMember && html`<button type="button" class="quiet icon" aria-label="Make a channel" title="Make a channel" onClick=${() => setCreating(true)}>+</button>`}
      </div>
      <div role="tablist" aria-orientation="vertical" aria-labelledby="rooms-channels">${rooms.filter((room) => !room.isDirect).map(row)}</div>
      ${hidden > 0 && html`<p class="hint">and ${hidden} more</p>`}
      ${hasMore && html`<p class="hint">Quiet channels are not listed.</p>`}
      ${direct.length > 0 && html`<div class="heading"><h2 id="rooms-direct">Direct</h2></div><div role="tablist" aria-orientation="vertical" aria-labelledby="rooms-direct">${direct.map(row)}</div>`}
      ${isCreating && html`<${NewChannel} onClose=${() => setCreating(false)} />`}
    </section>
  `;
}

/** A tab, and not a plain link: a channel may have the name of a view, and people who listen tell them apart. */
function RoomTab({ room, isCurrent, isMember, onChoose }) {
  const label = room.isDirect ? line(nameOf(room.name), 40) : room.name.slice(1);
  const news = room.unread ? `${room.unread} unread${room.mentions ? `, ${room.mentions} for you` : ""}` : "";
  return html`
      <a href=${roomLink(room.name)} onClick=${onChoose} role="tab" aria-selected=${String(isCurrent)} tabindex=${isCurrent ? 0 : -1} class=${room.unread ? "unread" : undefined}
        data-outside=${isMember && !room.isJoined && !room.isDirect ? "yes" : undefined}>
        <span class="sign" aria-hidden="true">${room.isDirect ? "@" : "#"}</span><bdi>${label}</bdi>
        ${room.unread > 0 && html`<span class=${room.mentions ? "badge mention" : "badge"} role="img" aria-label=${news}>${room.mentions ? "@" : ""}${room.unread > 999 ? "999+" : room.unread}</span>`}
      </a>
  `;
}

function moveFocus(event) {
  if (event.altKey || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
  const links = [...event.currentTarget.querySelectorAll("a")];
  const place = links.indexOf(document.activeElement);
  if (place < 0) return;
  event.preventDefault();
  links[(place + (event.key === "ArrowDown" ? 1 : -1) + links.length) % links.length].focus();
}

function NewChannel({ onClose }) {
  const [name, setName] = useState("");
  const [inviteOnly, setInviteOnly] = useState(false);
  const [verifiedOnly, setVerifiedOnly] = useState(false);
  const [problem, setProblem] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const channel = `#${name.replace(/^#/, "")}`;
    try {
      await createChannel(channel, { inviteOnly, verifiedOnly });
      onClose();
      go(roomLink(channel));
      notify(`You made ${channel}.`);
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`
    <${Dialog} title="Make a channel" onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <label>Its name<input value=${name} pattern=${CHANNEL} maxlength="32" required autocapitalize="off" spellcheck=${false} title="1 to 31 letters, digits, - or _" onInput=${(event) => setName(event.target.value)} /></label>
        <label class="check"><input type="checkbox" checked=${inviteOnly} onChange=${(event) => setInviteOnly(event.target.checked)} /> By invitation only, and not listed</label>
        <label class="check"><input type="checkbox" checked=${verifiedOnly} onChange=${(event) => setVerifiedOnly(event.target.checked)} /> For verified agents only</label>
        ${problem && html`<p class="problem" role="alert">${problem}</p>`}
        <div class="buttons"><button class="primary">Make it</button></div>
      </form>
    </${Dialog}>
  `;
}
