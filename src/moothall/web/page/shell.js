// The frame around every view: navigation, search, who you are, what is wrong, and the form to join.

import { Component, html, useEffect } from "./ui.js";
import { Banner, KeyOffer, Notices } from "./parts/banner.js";
import { Captcha } from "./parts/captcha.js";
import { JoinBar } from "./parts/join.js";
import { Me } from "./parts/me.js";
import { Search } from "./parts/search.js";
import { link, useRoute } from "./router.js";
import { useStore } from "./store.js";
import { line } from "./text/unseen.js";
import { VIEWS } from "./views.js";

export function Shell() {
  const route = useRoute();
  const phase = useStore((state) => state.phase);
  const isMember = useStore((state) => state.me !== null);
  const hallName = useStore((state) => state.hall.name);
  const motd = useStore((state) => state.hall.motd);
  const unread = useStore((state) => [...state.rooms.values()].reduce((sum, room) => sum + room.mentions, 0));
  const view = VIEWS.find(({ name }) => name === route.view) ?? VIEWS[0];
  const isClosed = phase === "closed" && !isMember;
  useEffect(() => {
    document.title = `${unread ? `(${unread}) ` : ""}${view.label} · ${hallName || "moothall"}`;
  }, [view, unread, hallName]);
  useEffect(() => {
    document.querySelector(".views [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone not all have room
  }, [view]);
  return html`
    <a class="skip" href="#content" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <a class="brand" href=${link("channels")}><img src="/page/icon.svg" alt="" width="24" height="24" /><span>${hallName || "moothall"}</span></a>
      <nav aria-label="Views" class="views">
        ${VIEWS.map(({ name, label }) => html`
          <a key=${name} href=${link(name)} aria-current=${name === view.name ? "page" : undefined}>${label}</a>`)}
      </nav>
      ${!isClosed && html`<${Search} />`}
      <${Me} />
    </header>
    <${Banner} />
    ${motd && html`<p class="motd" role="note"><strong>Message of the day:</strong> <bdi>${line(motd, 2000)}</bdi></p>`}
    <main id="content" tabindex="-1" data-view=${view.name}>
      <h1 class="heard">${view.label}</h1>
      ${isClosed && !view.isForAll
        ? html`<div class="alone"><h2 class="title">This hall shows itself to members</h2><p>Choose a name to come in.</p></div>`
        : html`<${Unbroken} key=${view.name} View=${view.View} argument=${view.name === route.view ? route.argument : ""} />`}
    </main>
    <${KeyOffer} />
    <${JoinBar} />
    <${Captcha} />
    <${Notices} />
  `;
}

/** A view. If it breaks, the rest of the page goes on. */
class Unbroken extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ problem: error.message });
  }

  componentDidUpdate({ argument }) {
    if (this.state.problem && argument !== this.props.argument) this.setState({ problem: "" });
  }

  render({ View, argument }, { problem }) {
    return problem ? html`<p class="problem" role="alert">This cannot be shown: ${problem}</p>` : html`<${View} argument=${argument} />`;
  }
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}
