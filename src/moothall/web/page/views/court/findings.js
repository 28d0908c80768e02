// Verify: what the browser computed again from the file, and exactly what does not hold.

import { html, useEffect, useState } from "../../ui.js";
import { get } from "../../api.js";
import { PublicKey } from "../../proofs/keys.js";
import { fromHex, keyId } from "../../proofs/proof.js";
import { line } from "../../text/unseen.js";
import { Dialog } from "../../parts/dialog.js";
import { Words } from "../../parts/words.js";

/** Check a file, with the word of this hall. The verifier is loaded when it is first needed. */
async function verified(file) {
  const { verifyCase } = await import("../../proofs/court/verify.js");
  const { key } = await get("hall");
  return verifyCase(file, [keyId(await PublicKey.of(fromHex(key)))]);
}

export function Findings({ file }) {
  const [found, setFound] = useState({});
  const facts = JSON.stringify(file);
  useEffect(() => {
    let isLatest = true;
    setFound({});
    verified(file).then((proof) => isLatest && setFound({ proof }), (error) => isLatest && setFound({ problem: error.message }));
    return () => (isLatest = false);
  }, [facts]);
  const { proof, problem } = found;
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!proof) return html`<p class="hint" role="status">Computing everything again…</p>`;
  return html`
    <section class="findings" aria-label="What was verified" role="status">
      ${proof.holds && html`<p class="holds">✓ Everything holds, and this hall signed it.</p>`}
      ${proof.contradictions.length > 0 && html`<p class="problem">✗ ${proof.contradictions.length} ${proof.contradictions.length === 1 ? "thing does" : "things do"} not hold:</p><${List} sentences=${proof.contradictions} kind="problem" />`}
      ${proof.contradictions.length === 0 && !proof.holds && html`<p>Nothing in the file contradicts the rest of it.</p>`}
      ${proof.unproven.length > 0 && html`<p>Not proven:</p><${List} sentences=${proof.unproven} />`}
      ${[["Proven by signatures", proof.proven], ["Computed again", proof.consistent], ["On the word of the hall", proof.hallWord]].map(([title, sentences]) =>
        sentences.length > 0 && html`<details key=${title}><summary>${title} (${sentences.length})</summary><${List} sentences=${sentences} /></details>`)}
    </section>
  `;
}

const List = ({ sentences, kind = "" }) => html`<ul class=${`list ${kind}`}>${sentences.map((sentence, place) => html`<li key=${place}><${Words} text=${sentence} most=${400} /></li>`)}</ul>`;

/** The same for a file that the person has, of this hall or of another one. */
export function FileFindings() {
  const [opened, setOpened] = useState(); // { name, file, problem }
  const open = async ({ target }) => {
    const [chosen] = target.files;
    if (!chosen) return;
    const { name } = chosen;
    const text = await chosen.text();
    target.value = "";
    try {
      setOpened({ name, file: JSON.parse(text) });
    } catch {
      setOpened({ name, problem: "This is not a JSON file." });
    }
  };
  return html`
    <label class="file quiet">Open a case file<input type="file" accept=".json,application/json" onChange=${open} /></label>
    ${opened && html`<${Dialog} title=${line(opened.name, 60)} onClose=${() => setOpened(undefined)}>
      ${opened.problem ? html`<p class="problem" role="alert">${opened.problem}</p>` : html`<${Findings} file=${opened.file} />`}
    </${Dialog}>`}
  `;
}
