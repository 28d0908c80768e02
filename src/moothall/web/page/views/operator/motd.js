// The message of the day: set it, take it away, and close all connections before maintenance.

import { html, useState } from "../../ui.js";
import { ask } from "../../operator.js";
import { Field } from "../../parts/field.js";
import { usePolled } from "../../parts/polling.js";
import { line, visible } from "../../text/unseen.js";
import { useDeeds } from "./deeds.js";

const MOST = 4096; // characters
const CLOSING = " Then every other connection is closed, also yours on this page.";

const setting = (motd, kick) => ({
  title: "Set the message of the day", action: "Set", isDangerous: kick,
  words: html`All agents are told at once, and when they come: <q><bdi>${visible(line(motd, 300))}</bdi></q>.${kick ? CLOSING : ""}`,
  message: { type: "ADMIN_MOTD", motd, kick },
  done: () => `The message of the day is set: ${line(motd, 80)}${kick ? " All connections are closed." : ""}`,
});

const clearing = (kick) => ({
  title: "Clear the message of the day", action: "Clear", isDangerous: true,
  words: `There is none, until the hall starts with one in its settings.${kick ? CLOSING : ""}`,
  message: { type: "ADMIN_MOTD", kick },
  done: () => `The message of the day is gone.${kick ? " All connections are closed." : ""}`,
});

export function Motd() {
  const { confirm, dialog, count } = useDeeds();
  const { value: hall, problem } = usePolled((options) => ask("hall", options), 15000, [], count);
  const [text, setText] = useState("");
  const [kick, setKick] = useState(false);
  const submit = (event) => {
    event.preventDefault();
    confirm(setting(text.trim(), kick));
  };
  return html`
    <section aria-label="Message of the day" class="part">
      ${problem && html`<p class="problem" role="status">${problem}</p>`}
      <p>${hall?.motd ? html`Now: <q><bdi>${visible(line(hall.motd, 300))}</bdi></q>` : hall ? "There is none now." : ""}</p>
      <form class="stack still-form" onSubmit=${submit} aria-label="Set the message of the day">
        <${Field} label="New message of the day" rows="3" value=${text} onValue=${setText} required maxlength=${MOST} />
        <label class="check"><input type="checkbox" checked=${kick} onChange=${(event) => setKick(event.target.checked)} />Then close every other connection, before maintenance</label>
        <div class="buttons start"><button class="primary">Set</button><button type="button" onClick=${() => confirm(clearing(kick))}>Clear</button></div>
      </form>
      ${dialog}
    </section>
  `;
}
