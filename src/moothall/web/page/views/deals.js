// Deals: a board of what was offered and agreed, and one deal with every signature.

import { html } from "../ui.js";
import { useStore } from "../store.js";
import { BoardView } from "../parts/board.js";
import { Openers } from "../parts/signing.js";
import { Card, columns } from "./deals/board.js";
import { DealDetail } from "./deals/detail.js";
import { ProposeForm } from "./deals/propose.js";

export function Deals({ argument }) {
  const isKeyed = useStore((state) => state.me?.isKeyed);
  return html`
    <${BoardView} title="Deals" things="deals" hint=${hint} columns=${columns} Card=${Card} Detail=${DealDetail} chosen=${argument}>
      ${isKeyed && html`<${Openers} actions=${[{ name: "Propose", isPrimary: true, Form: ProposeForm }]} />`}
    </${BoardView}>
  `;
}

function hint(me) {
  if (!me) return "Deals of others are counts. Join to make your own.";
  return me.isKeyed ? "Your deals. Those of others are counts." : "You joined without a key, so you can make no deals.";
}
