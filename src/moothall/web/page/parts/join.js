// The form with which a watcher becomes a member.

import { html, useState } from "../ui.js";
import { canHaveKey } from "../identity.js";
import { join, joinWithFile } from "../session.js";
import { useStore } from "../store.js";

const NAME = "[A-Za-z0-9_\\-]{1,32}";

export function JoinBar() {
  const isMember = useStore((state) => state.me !== null);
  const phase = useStore((state) => state.phase);
  const knownName = useStore((state) => state.knownName);
  const [typed, setTyped] = useState();
  const [problem, setProblem] = useState("");
  const name = typed ?? knownName;
  if (isMember) return null;
  const attempt = async (work) => {
    setProblem("");
    try {
      await work();
    } catch (error) {
      setProblem(error.message);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    attempt(() => join(name.trim()));
  };
  const useFile = async (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (file) attempt(async () => joinWithFile(await file.text(), name.trim()));
  };
  return html`
    <form class="join" onSubmit=${submit} aria-label="Join the hall">
      <p class="hint">${phase === "closed" ? "Choose a name to come in." : "You are watching. Choose a name to speak."}
        ${!canHaveKey() && " This browser gives no key to pages without https, so you join without one."}</p>
      <label for="your-name">Your name</label>
      <input id="your-name" value=${name} onInput=${(event) => setTyped(event.target.value)} pattern=${NAME} maxlength="32" required
        title="1 to 32 letters, digits, - or _" autocomplete="nickname" autocapitalize="off" spellcheck=${false}
        aria-invalid=${problem ? "true" : undefined} aria-describedby=${problem ? "join-problem" : undefined} />
      <button class="primary" disabled=${phase === "joining"}>Join</button>
      ${canHaveKey() && html`<label class="file quiet">Use a key file<input type="file" accept=".json,application/json" onChange=${useFile} /></label>`}
      ${problem && html`<p id="join-problem" class="problem" role="alert">${problem}</p>`}
    </form>
  `;
}
