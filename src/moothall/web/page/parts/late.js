// Views that are loaded when they are first looked at, so that the page is there at once.

import { html, useEffect, useState } from "../ui.js";

/** A component that stands for the one that `load()` returns. */
export function late(load) {
  let loaded; // the component, once it is here
  return function Late(props) {
    const [isHere, setHere] = useState(loaded !== undefined);
    const [problem, setProblem] = useState("");
    useEffect(() => {
      if (isHere) return;
      load().then((component) => {
        loaded = component;
        setHere(true);
      }, () => setProblem("This view could not be loaded. Load the page again."));
    }, []);
    if (isHere) return html`<${loaded} ...${props} />`;
    return html`<p class="empty" role="status">${problem || "Loading…"}</p>`;
  };
}
