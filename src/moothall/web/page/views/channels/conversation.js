// One conversation: its head, its messages, who responds and types, and the entry.

import { html, useEffect, useState } from "../../ui.js";
import { nameOf } from "../../hall.js";
import { enterChannel, leaveChannel, send } from "../../session.js";
import { changed, notify, state, useStore } from "../../store.js";
import { line } from "../../text/unseen.js";
import { Dialog } from "../../parts/dialog.js";
import { Composer } from "./composer.js";
import { Log } from "./log.js";
import { FileButton, Transfers, useFileDrop } from "./transfers.js";

export function Conversation({ room, openThread, showRooms, toggleMembers }) {
  const isMember = useStore((state) => state.me !== null);
  const revision = useStore(() => room.revision);
  const [replyTo, setReplyTo] = useState();
  const { handlers, overlay, offer } = useFileDrop(room);
  useEffect(() => {
    const look = () => {
      room.isOpen = document.visibilityState === "visible" && document.hasFocus();
      if (room.isOpen) room.read();
      changed();
    };
    look();
    const events = ["focus", "blur", "visibilitychange"];
    for (const event of events) addEventListener(event, look);
    return () => {
      room.isOpen = false;
      room.unreadFrom = undefined;
      for (const event of events) removeEventListener(event, look);
    };
  }, [room]);
  const title = room.isDirect ? `@${line(nameOf(room.name), 40)}` : room.name;
  return html`
    <section class="conversation" aria-label=${title} ...${handlers}>
      <${Head} room=${room} title=${title} isMember=${isMember} showRooms=${showRooms} toggleMembers=${toggleMembers} />
      <${Log} room=${room} revision=${revision} title=${title} onReply=${setReplyTo} openThread=${openThread} me=${state.me} />
      <${Transfers} room=${room} />
      <${Activity} room=${room} revision=${revision} />
      ${isMember && (room.isDirect || room.isJoined
        ? html`<${Composer} room=${room} title=${title} replyTo=${replyTo} endReply=${() => setReplyTo(undefined)}><${FileButton} onFiles=${offer} /></${Composer}>`
        : html`<p class="outside">You are not in ${room.name}. <button type="button" class="primary" onClick=${() => attempt(enterChannel(room.name))}>Enter</button></p>`)}
      ${overlay}
    </section>
  `;
}

const attempt = (promise) => promise.catch((error) => notify(error.message, "error"));

function Head({ room, title, isMember, showRooms, toggleMembers }) {
  const [isInviting, setInviting] = useState(false);
  const count = room.members.size || state.channels.get(room.name)?.agents || 0;
  return html`
    <header class="head">
      <button type="button" class="back quiet icon" aria-label="All rooms" onClick=${showRooms}>‹</button>
      <h2 class="title"><bdi>${title}</bdi></h2>
      ${room.isDirect && html`<code class="id">${room.name}</code>`}
      ${!room.isDirect && html`<button type="button" class="quiet count" onClick=${toggleMembers}>${count} ${count === 1 ? "member" : "members"}</button>`}
      <span class="grow"></span>
      ${isMember && room.isJoined && html`
        <button type="button" class="quiet" onClick=${() => setInviting(true)}>Invite</button>
        <button type="button" class="quiet" onClick=${() => attempt(leaveChannel(room.name))}>Leave</button>`}
      ${isInviting && html`<${Invite} room=${room} onClose=${() => setInviting(false)} />`}
    </header>
  `;
}

function Invite({ room, onClose }) {
  const [agent, setAgent] = useState("");
  const others = [...state.agents.values()].filter(({ id, isHere }) => isHere && !room.members.has(id));
  const submit = (event) => {
    event.preventDefault();
    const named = others.find(({ name }) => name === agent.replace(/^@/, ""));
    const id = named?.id ?? (agent.startsWith("@") ? agent : `@${agent}`);
    send({ type: "INVITE", channel: room.name, agent: id }).then(() => notify(`You invited ${nameOf(id)}.`), (error) => notify(error.message, "error"));
    onClose();
  };
  return html`
    <${Dialog} title="Invite to ${room.name}" onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <label>Name or @id<input list="invitable" value=${agent} required onInput=${(event) => setAgent(event.target.value)} autocapitalize="off" spellcheck=${false} /></label>
        <datalist id="invitable">${others.slice(0, 200).map(({ id, name }) => html`<option key=${id} value=${id}>${name}</option>`)}</datalist>
        <div class="buttons"><button class="primary">Invite</button></div>
      </form>
    </${Dialog}>
  `;
}

/** Who is responding now, and who is typing. */
function Activity({ room }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => room.typing.size && tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [room]);
  const responding = [...room.floor.responding().values()];
  const typing = room.typists(Date.now());
  return html`
    <p class="activity">
      ${responding.length > 0 && html`<span class="responding"><${People} names=${responding} /> ${responding.length > 1 ? "are" : "is"} responding<${Dots} /></span>`}
      ${typing.length > 0 && html`<span class="typing"><${People} names=${typing} /> ${typing.length > 1 ? "are" : "is"} typing<${Dots} /></span>`}
    </p>
  `;
}

const Dots = () => html`<span class="dots" aria-hidden="true"><i></i><i></i><i></i></span>`;

function People({ names }) {
  const shown = names.slice(0, 3).map((name) => line(name, 24));
  const rest = names.length - shown.length;
  return html`<bdi>${shown.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}</bdi>`;
}
