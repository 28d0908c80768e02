// Questions that are asked again and again, while the person looks.

import { useEffect, useRef, useState } from "../vendor/hooks.js";

const SPACING = 1000; // milliseconds between two questions, however much happens

/**
 * What `ask({ signal })` answers: { value, problem }. It is asked again after `pause` milliseconds, and whenever one of
 * `inputs` is another one. A page that is hidden does not ask. When `nudge` changes it is asked soon, and the last
 * answer stays until then.
 */
export function usePolled(ask, pause, inputs, nudge) {
  const [answer, setAnswer] = useState({});
  const asking = useRef();
  useEffect(() => {
    const ending = new AbortController();
    let timer;
    let began = 0;
    let isAsking = false;
    let isNudged = false;
    const again = (wait) => {
      clearTimeout(timer);
      timer = setTimeout(once, wait);
    };
    const soon = () => {
      isNudged = true;
      if (!isAsking) again(began + SPACING - Date.now());
    };
    const once = async () => {
      isAsking = true;
      isNudged = false;
      began = Date.now();
      let change = (before) => before;
      if (document.visibilityState === "visible") {
        try {
          const value = await ask({ signal: ending.signal });
          change = () => ({ value });
        } catch (error) {
          change = ({ value }) => ({ value, problem: error.message });
        }
      }
      if (ending.signal.aborted) return;
      isAsking = false;
      setAnswer(change);
      again(isNudged ? SPACING : pause);
    };
    setAnswer({});
    asking.current = { soon, nudge };
    once();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, inputs);
  useEffect(() => {
    if (asking.current.nudge === nudge) return;
    asking.current.nudge = nudge;
    asking.current.soon();
  }, [nudge]);
  return answer;
}
