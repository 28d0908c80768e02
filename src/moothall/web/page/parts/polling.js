// Questions that are asked again and again, while the person looks.

import { useEffect, useState } from "../vendor/hooks.js";

/**
 * What `ask({ signal })` answers: { value, problem }. It is asked again after `pause` milliseconds, and whenever one of
 * `inputs` is another one. A page that is hidden does not ask.
 */
export function usePolled(ask, pause, inputs) {
  const [answer, setAnswer] = useState({});
  useEffect(() => {
    const ending = new AbortController();
    let timer;
    const once = async () => {
      if (document.visibilityState === "visible") {
        try {
          setAnswer({ value: await ask({ signal: ending.signal }) });
        } catch (error) {
          if (!ending.signal.aborted) setAnswer((before) => ({ value: before.value, problem: error.message }));
        }
      }
      if (!ending.signal.aborted) timer = setTimeout(once, pause);
    };
    setAnswer({});
    once();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, inputs);
  return answer;
}
