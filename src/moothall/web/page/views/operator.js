// Operator: how the hall is, and what its operator does about it. The admin key opens it.

import { html, useRef, useState } from "../ui.js";
import { ask, doneLately, enter, forget, hasKey, whyLocked } from "../operator.js";
import { link } from "../router.js";
import { useStore } from "../store.js";
import { usePolled } from "../parts/polling.js";
import { line } from "../text/unseen.js";
import { clockTime, wholeTime } from "../parts/time.js";
import { AllowList } from "./operator/allowlist.js";
import { Bans } from "./operator/bans.js";
import { Budgets } from "./operator/budgets.js";
import { Connections } from "./operator/connections.js";
import { Motd } from "./operator/motd.js";
import { Numbers } from "./operator/numbers.js";

const SECTIONS = [
  { name: "numbers", label: "Numbers", Section: Numbers },
  { name: "connections", label: "Connections", Section: Connections },
  { name: "bans", label: "Bans", Section: Bans },
  { name: "allow", label: "Allow list", Section: AllowList },
  { name: "motd", label: "Message of the day", Section: Motd },
  { name: "budgets", label: "Budgets", Section: Budgets },
];

export function Operator({ argument }) {
  const isOpen = useStore(hasKey);
  return isOpen ? html`<${Desk} argument=${argument} />` : html`<${Lock} />`;
}

function Lock() {
  const why = useStore(whyLocked);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const field = useRef();
  const submit = async (event) => {
    event.preventDefault();
    const given = field.current.value;
    field.current.value = ""; // a key that is wrong is typed again; the right one stays in one place only
    setBusy(true);
    setProblem("");
    try {
      await enter(given);
    } catch (error) {
      setProblem(error.message);
      setBusy(false);
      field.current?.focus();
    }
  };
  const shown = problem || why;
  return html`
    <div class="lock">
      <h2 class="title">For the operator of this hall</h2>
      <p>The admin key shows how the hall is, and lets you kick, ban, approve, set the message of the day, and set budgets.</p>
      <form class="row-form" onSubmit=${submit} aria-label="Open">
        <label>Admin key<input ref=${field} type="password" required autocomplete="off" autocapitalize="off" spellcheck=${false}
          aria-invalid=${shown ? "true" : undefined} aria-describedby=${shown ? "lock-problem" : "lock-hint"} /></label>
        <button class="primary" disabled=${isBusy}>Open</button>
      </form>
      ${shown && html`<p id="lock-problem" class="problem" role="alert"><bdi>${shown}</bdi></p>`}
      ${!isSecureContext && html`<p class="problem">This page is not encrypted: others on the way can read the key. Open it over https.</p>`}
      <p id="lock-hint" class="hint">The key stays in the memory of this page. A reload forgets it. Enter it only on a page that you opened yourself.</p>
    </div>
  `;
}

function Desk({ argument }) {
  const section = SECTIONS.find(({ name }) => name === argument) ?? SECTIONS[0];
  const deeds = useStore(doneLately);
  const { value: hall } = usePolled((options) => ask("hall", options), 15000, []);
  return html`
    <div class="operator">
      <header>
        <h2 class="title">Operator</h2>
        ${hall && html`<span class="hint">${line(hall.name, 60)} ${line(hall.version, 30)}, up since ${wholeTime(hall.started_at)}</span>`}
        <button type="button" onClick=${() => forget()}>Forget the key</button>
      </header>
      <nav class="sections" aria-label="Parts of Operator">
        ${SECTIONS.map(({ name, label }) => html`<a key=${name} href=${link("operator", name)} aria-current=${name === section.name ? "page" : undefined}>${label}</a>`)}
      </nav>
      <p class="deed" role="status">${deeds.length > 0 && html`<span><time>${clockTime(deeds[0].at)}</time> <bdi>${deeds[0].text}</bdi></span>`}</p>
      <${section.Section} key=${section.name} />
      ${deeds.length > 1 && html`
        <details class="deeds"><summary>Done in this visit: ${deeds.length}</summary>
          <ol>${deeds.map(({ at, text }, place) => html`<li key=${deeds.length - place}><time>${clockTime(at)}</time> <bdi>${text}</bdi></li>`)}</ol>
        </details>`}
    </div>
  `;
}
