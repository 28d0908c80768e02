// Mesh: who beacons, how far conversations are, and the credits behind them.

import { html } from "../ui.js";
import { list } from "../api.js";
import { link } from "../router.js";
import { getOwn } from "../own.js";
import { useStore } from "../store.js";
import { usePolled } from "../parts/polling.js";
import { Beacons } from "./mesh/beacons.js";
import { Conversations } from "./mesh/conversations.js";
import { ConversationDetail } from "./mesh/detail.js";
import { Diagram } from "./mesh/diagram.js";
import { Ledger } from "./mesh/ledger.js";

const PAUSE = 5000; // milliseconds
const MOST_BEACONS = 500;
const IDS = /^[0-9a-f]{32}$/;

export function Mesh({ argument }) {
  const me = useStore((state) => state.me?.id);
  const chosen = IDS.test(argument) ? argument : "";
  const beacons = usePolled((options) => list("mesh/agents", MOST_BEACONS, options), PAUSE, []);
  const counts = usePolled((options) => getOwn("mesh/conversations?limit=1", options), PAUSE, [me]);
  const one = usePolled((options) => (chosen ? getOwn(`mesh/conversations/${chosen}`, options) : undefined), PAUSE, [me, chosen]);
  const names = new Map((beacons.value ?? []).map((beacon) => [beacon.key, beacon]));
  const current = one.value?.conversation.state;
  return html`
    <div class="mesh" data-detail=${chosen ? "yes" : "no"}>
      <section class="states" aria-label="States of a conversation">
        <h2 class="title">${chosen ? "This conversation" : "Conversations"}</h2>
        ${chosen && html`<a class="back-link" href=${link("mesh")}>All conversations</a>`}
        <${Diagram} current=${current} counts=${chosen ? undefined : counts.value?.counts} />
        ${counts.problem && html`<p class="problem" role="status">${counts.problem}</p>`}
      </section>
      <div class="books">
        <${Beacons} beacons=${beacons.value} problem=${beacons.problem} />
        <${Conversations} names=${names} chosen=${chosen} counts=${counts.value?.counts} />
        <${Ledger} names=${names} />
      </div>
      ${chosen && html`<${ConversationDetail} key=${chosen} id=${chosen} answer=${one.value} problem=${one.problem} names=${names} />`}
    </div>
  `;
}
