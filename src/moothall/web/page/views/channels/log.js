// The list of messages. Only what is near the screen is in the document, however long the conversation is.
//
// Rows have any height. A row that was never shown counts as `ESTIMATE`; one that was, as what it measured. The list
// stays where the reader is: at its end, or at the message that is topmost on the screen. People who hear the page are told
// of new rows at the end only: rows that come into the document by scrolling are not news.

import { Component, html } from "../../ui.js";
import { state } from "../../store.js";
import { isSameDay } from "../../parts/time.js";
import { seen } from "../../seen.js";
import { Message } from "./message.js";

const ESTIMATE = 48; // pixels
const AROUND = 700; // pixels of rows that are kept above and below the screen
const NEAR_END = 48; // pixels from the end that count as the end
const TOGETHER = 5 * 60 * 1000; // milliseconds in which messages of one sender share a heading

export class Log extends Component {
  #scroller;
  #observer;
  #heights = new WeakMap(); // by message
  #tops = new Float64Array(1); // the top of each row, and the end
  #isAtEnd = true;
  #anchor; // { message, offset } at the top of the screen, when not at the end
  #lastSeen = 0; // messages that were there when the reader left the end
  #shown = [0, 0]; // the rows that are in the document
  #shownBelow = 0; // what the button says
  state = { found: undefined };

  componentDidMount() {
    this.#observer = new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width !== this.#width) this.#heights = new WeakMap(); // texts wrap differently now
      this.#width = contentRect.width;
      this.forceUpdate();
    });
    this.#observer.observe(this.#scroller);
    addEventListener("jump", this.#jump);
    this.#jump();
    this.#settle();
  }

  componentWillUnmount() {
    this.#observer.disconnect();
    removeEventListener("jump", this.#jump);
  }

  componentDidUpdate() {
    this.#settle();
  }

  #width = 0;

  #jump = () => {
    const { room } = this.props;
    if (state.jump?.room !== room.name) return;
    const message = room.byKey.get(state.jump.key);
    state.jump = undefined;
    if (message) this.goTo(message);
  };

  /** Bring a message to the screen, and mark it. */
  goTo(message) {
    this.#isAtEnd = false;
    this.#lastSeen = this.props.room.messages.length;
    this.#anchor = { message, offset: -Math.round((this.#scroller?.clientHeight ?? 300) / 3) };
    this.setState({ found: message.key });
    this.forceUpdate();
  }

  goToEnd = () => {
    this.#isAtEnd = true;
    this.#anchor = undefined;
    this.forceUpdate();
  };

  #onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    if (this.#isAtEnd) {
      this.#anchor = undefined;
      this.#lastSeen = this.props.room.messages.length;
    } else {
      const place = this.#rowAt(scrollTop);
      this.#anchor = { message: this.props.room.messages[place], offset: scrollTop - this.#tops[place] };
    }
    const [first, last] = this.#window();
    if (first < this.#shown[0] || last > this.#shown[1] || this.#shownBelow !== this.#below()) this.forceUpdate();
  };

  #below() {
    return this.#isAtEnd ? 0 : Math.max(0, this.props.room.messages.length - this.#lastSeen);
  }

  /** The tops of all rows, from what is known of their heights. */
  #measure() {
    const { messages } = this.props.room;
    if (this.#tops.length < messages.length + 1) this.#tops = new Float64Array(2 * messages.length + 64);
    let top = 0;
    for (let place = 0; place < messages.length; place++) {
      this.#tops[place] = top;
      top += this.#heights.get(messages[place]) ?? ESTIMATE;
    }
    this.#tops[messages.length] = top;
  }

  #rowAt(top) {
    let low = 0;
    let high = Math.max(0, this.props.room.messages.length - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #window() {
    const count = this.props.room.messages.length;
    const height = this.#scroller?.clientHeight || 800;
    const end = this.#tops[count];
    const top = this.#isAtEnd ? end - height : Math.min(this.#anchorTop() ?? this.#scroller?.scrollTop ?? 0, end - height);
    return [this.#rowAt(top - AROUND), Math.min(count, this.#rowAt(top + height + AROUND) + 1)];
  }

  #anchorTop() {
    if (!this.#anchor) return undefined;
    const place = this.props.room.messages.indexOf(this.#anchor.message);
    return place < 0 ? undefined : this.#tops[place] + this.#anchor.offset;
  }

  /** After each render: measure the rows that are there, and stand where the reader was. */
  #settle() {
    const scroller = this.#scroller;
    const { room } = this.props;
    for (const row of scroller.querySelectorAll(":scope > .row")) {
      const message = room.byKey.get(row.dataset.key);
      if (message) this.#heights.set(message, row.offsetHeight);
    }
    this.#measure();
    const wanted = this.#isAtEnd ? scroller.scrollHeight : this.#anchorTop();
    if (wanted !== undefined && Math.abs(scroller.scrollTop - wanted) > 1) scroller.scrollTop = wanted;
    const [first, last] = this.#window();
    if (first < this.#shown[0] || last > this.#shown[1]) this.forceUpdate();
    seen(room, this.#isAtEnd);
  }

  #onKey = (event) => {
    const article = event.target.closest("article");
    if (event.target !== article && event.target !== this.#scroller) return; // a button in it has keys of its own
    const row = article?.parentElement;
    const step = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[event.key];
    if (step && !event.altKey) {
      event.preventDefault();
      const next = row ? row[step] : [...this.#scroller.querySelectorAll(":scope > .row")].at(-1);
      next?.querySelector("article")?.focus();
    } else if (event.key === "End") {
      event.preventDefault();
      this.goToEnd();
    } else if (row && event.key === "r" && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      this.props.onReply(this.props.room.byKey.get(row.dataset.key));
    }
  };

  render({ room, title, onReply, openThread, me }) {
    this.#measure();
    const { messages } = room;
    const [first, last] = (this.#shown = this.#window());
    const below = (this.#shownBelow = this.#below());
    const rows = [];
    for (let place = first; place < last; place++) {
      const message = messages[place];
      const previous = messages[place - 1];
      const isNewDay = !previous || !isSameDay(previous.ts, message.ts);
      const isFirstUnread = message.key === room.unreadFrom;
      const isTogether = !isNewDay && !isFirstUnread && previous.from === message.from && message.ts - previous.ts < TOGETHER && !message.replyTo;
      rows.push(html`<${Message} key=${message.key} room=${room} message=${message} revision=${message.revision} isNewDay=${isNewDay}
        isFirstUnread=${isFirstUnread} isTogether=${isTogether} isFound=${message.key === this.state.found} replies=${room.replies.get(message.id)?.length ?? 0}
        onReply=${onReply} openThread=${openThread} me=${me} />`);
    }
    return html`
      <div class="logbox">
        <div class="log" role="log" aria-live=${this.#isAtEnd ? "polite" : "off"} aria-label=${title} tabindex="0" ref=${(element) => (this.#scroller = element ?? this.#scroller)} onScroll=${this.#onScroll} onKeyDown=${this.#onKey}>
          <div class="space" style=${{ height: `${this.#tops[first]}px` }}></div>
          ${rows}
          <div class="space" style=${{ height: `${Math.max(0, this.#tops[messages.length] - this.#tops[last])}px` }}></div>
          ${messages.length === 0 && html`<p class="empty">Nothing was said here yet.</p>`}
        </div>
        ${below > 0 && html`<button type="button" class="below" onClick=${this.goToEnd}>↓ ${below} new below</button>`}
      </div>
    `;
  }
}
