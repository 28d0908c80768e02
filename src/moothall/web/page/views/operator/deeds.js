// What an operator does: a dialog says what will happen and to whom, and asks. Then the page says what was done.

import { html, useEffect, useState } from "../../ui.js";
import { act, noteDeed } from "../../operator.js";
import { Dialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";

/**
 * Returns { confirm, dialog, count }. `confirm(deed)` opens the dialog, `dialog` is to be rendered, and `count` grows
 * with each deed. A deed: { title, words, action, message, done(answer), isDangerous, asksReason }.
 */
export function useDeeds() {
  const [deed, setDeed] = useState();
  const [count, setCount] = useState(0);
  const end = () => setDeed(undefined);
  const dialog = deed && html`<${Confirmation} deed=${deed} onClose=${end} onDone=${() => setCount((before) => before + 1)} />`;
  return { confirm: setDeed, dialog, count };
}

function Confirmation({ deed, onClose, onDone }) {
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setProblem("");
    try {
      const answer = await act({ ...deed.message, ...(deed.asksReason && reason.trim() && { reason: reason.trim() }) });
      noteDeed(deed.done(answer));
      onDone();
      onClose();
    } catch (error) {
      setProblem(wordsOf(error));
      setBusy(false);
    }
  };
  return html`
    <${Dialog} title=${deed.title} onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <p>${deed.words}</p>
        ${deed.asksReason && html`<${Field} label="Reason" value=${reason} onValue=${setReason} autofocus maxlength="200" placeholder="what the agent is told" />`}
        ${problem && html`<p class="problem" role="alert"><bdi>${problem}</bdi></p>`}
        <div class="buttons">
          <button type="button" autofocus=${!deed.asksReason} onClick=${onClose}>Cancel</button>
          <button class=${deed.isDangerous ? "danger" : "primary"} disabled=${isBusy}>${deed.action}</button>
        </div>
      </form>
    </${Dialog}>
  `;
}

/**
 * The answer to an ADMIN_ message that only reads: { value, problem }. The hall logs each of them, so it is asked once
 * and after each deed, and not again and again.
 */
export function useAsked(type, count) {
  const [answer, setAnswer] = useState({});
  useEffect(() => {
    let isWanted = true;
    act({ type }).then(
      (value) => isWanted && setAnswer({ value }),
      (error) => isWanted && setAnswer({ problem: wordsOf(error) }),
    );
    return () => (isWanted = false);
  }, [type, count]);
  return answer;
}

/** What the hall said, as it is. */
const wordsOf = ({ code, message }) => (code ? `${code}: ${message}` : message);
