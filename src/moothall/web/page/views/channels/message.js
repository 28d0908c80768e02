// One row of the list: a message, and what belongs to it.

import { Component, html } from "../../ui.js";
import { nameOf } from "../../hall.js";
import { sayAgain } from "../../outbox.js";
import { go, roomLink } from "../../router.js";
import { state } from "../../store.js";
import { markdown } from "../../text/markdown.js";
import { isMentioned } from "../../text/mentions.js";
import { line, visible } from "../../text/unseen.js";
import { Avatar, Marks, Name } from "../../parts/agent.js";
import { clockTime, dayName, wholeTime } from "../../parts/time.js";
import { Ticks } from "./ticks.js";

const LONG = 6000; // characters that are shown at first
const MOST_CLAIMS = 6;

const context = {
  isMe: (mention) => state.me !== null && isMentioned(mention, state.me),
  opener: (channel) => (state.channels.has(channel) ? () => go(roomLink(channel)) : undefined),
};

/** Rendered again only if something in it is another thing: texts are parsed once. */
export class Message extends Component {
  state = { isWhole: false };

  shouldComponentUpdate(next, nextState) {
    if (nextState.isWhole !== this.state.isWhole) return true;
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }

  render({ room, message, isNewDay, isFirstUnread, isTogether, isFound, replies, onReply, openThread, me }) {
    const isForMe = me && !message.isOwn && !message.isService && isMentioned(message.content, me);
    const marks = [isTogether && "together", message.isService && "service", isForMe && "for-me", isFound && "found", message.isOwn && "own"];
    return html`
      <div class="row" data-key=${message.key}>
        ${isNewDay && html`<p class="day"><span>${dayName(message.ts)}</span></p>`}
        ${isFirstUnread && html`<p class="day new"><span>New</span></p>`}
        <article class="message ${marks.filter(Boolean).join(" ")}" tabindex="-1" aria-label="${line(message.name, 40)}, ${clockTime(message.ts)}">
          ${message.replyTo && html`<${Quote} room=${room} message=${message} openThread=${openThread} />`}
          ${isTogether || message.isService ? html`<time class="aside">${clockTime(message.ts)}</time>` : html`<${Avatar} id=${message.from} name=${message.name} />`}
          ${!isTogether && !message.isService && html`
            <header>
              <${Name} id=${message.from} name=${message.name} />
              <${Marks} ...${message} />
              <time title=${wholeTime(message.ts)}>${clockTime(message.ts)}</time>
            </header>`}
          <div class="body">${this.#body(message)}</div>
          ${message.isOwn && html`<${Ticks} message=${message} />`}
          <${Foot} room=${room} message=${message} replies=${replies} openThread=${openThread} />
          ${message.id && html`
            <div class="actions" role="group" aria-label="Do">
              ${me && html`<button type="button" class="quiet" onClick=${() => onReply(message)}>Reply</button>`}
              <button type="button" class="quiet" onClick=${() => openThread(message.id)}>Thread</button>
            </div>`}
        </article>
      </div>
    `;
  }

  #body({ content, isService }) {
    if (isService) return html`<p dir="auto">${visible(content.slice(0, LONG))}</p>`;
    const isCut = content.length > LONG && !this.state.isWhole;
    return html`
      ${markdown(isCut ? content.slice(0, LONG) : content, context)}
      ${isCut && html`<button type="button" onClick=${() => this.setState({ isWhole: true })}>Show all ${content.length} characters</button>`}
    `;
  }
}

/** The quoted words are drawn by the style sheet, so that each message is in the document once, for those who search it. */
function Quote({ room, message, openThread }) {
  const asked = room.find(message.replyTo);
  const text = asked ? `${line(asked.name, 24)}: ${line(asked.content, 90)}` : "an earlier message";
  return html`<button type="button" class="quote quiet" onClick=${() => openThread(message.replyTo)} aria-label="In reply to" aria-description=${text} data-text="↳ ${text}"></button>`;
}

const doubt = ({ status, reason }) => (status === "failed" ? `Not sent: ${reason}` : "The connection was lost. It may have arrived or not.");

/** Who responds to it and who yielded, how many replies it has, and whether it arrived. */
function Foot({ room, message, replies, openThread }) {
  const claims = message.id ? room.floor.of(message.id) : [];
  const isDoubtful = message.status === "failed" || message.status === "unknown";
  if (!claims.length && !replies && !isDoubtful) return null;
  return html`
    <footer>
      ${claims.slice(0, MOST_CLAIMS).map(({ id, name, yielded }) => html`
        <span key=${id} class=${yielded ? "claim yielded" : "claim"}><bdi>${line(name ?? nameOf(id), 24)}</bdi> ${yielded ? "yielded" : "is responding"}</span>`)}
      ${claims.length > MOST_CLAIMS && html`<span class="claim">and ${claims.length - MOST_CLAIMS} more</span>`}
      ${replies > 0 && html`<button type="button" class="replies" onClick=${() => openThread(message.id)}>${replies} ${replies === 1 ? "reply" : "replies"}</button>`}
      ${isDoubtful && html`<span class="why">${doubt(message)}</span><button type="button" onClick=${() => sayAgain(room.name, message)}>Try again</button>`}
    </footer>
  `;
}
