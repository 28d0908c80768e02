// Questions that are asked again and again, while the person looks.

import { useEffect, useRef, useState } from "../vendor/hooks.js";

/**
 * What `ask({ signal })` answers: { value, problem }. It is asked again after `pause` milliseconds, and whenever one of
 * `inputs` is another one. A page that is hidden does not ask. When `nudge` changes it is asked at once, and the last
 * answer stays until then.
 */
export function usePolled(ask, pause, inputs, nudge) {
  const [answer, setAnswer] = useState({});
  const asking = useRef();
  useEffect(() => {
    const ending = new AbortController();
    let timer;
    let last = 0; // the number of the latest question: an answer to an earlier one comes too late
    const once = async () => {
      const number = ++last;
      clearTimeout(timer);
      let change = (before) => before;
      if (document.visibilityState === "visible") {
        try {
          const value = await ask({ signal: ending.signal });
          change = () => ({ value });
        } catch (error) {
          change = ({ value }) => ({ value, problem: error.message });
        }
      }
      if (ending.signal.aborted || number !== last) return;
      setAnswer(change);
      timer = setTimeout(once, pause);
    };
    setAnswer({});
    asking.current = { once, nudge };
    once();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, inputs);
  useEffect(() => {
    if (asking.current.nudge === nudge) return;
    asking.current.nudge = nudge;
    asking.current.once();
  }, [nudge]);
  return answer;
}
