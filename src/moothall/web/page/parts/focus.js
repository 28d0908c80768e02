// The focus of the keyboard returns to the opener of what was closed.

import { useLayoutEffect } from "../ui.js";

const isLost = () => document.activeElement === null || document.activeElement === document.body;

/** When the component is removed and the focus with it, focus the element that had it before. */
export function useFocusReturn() {
  useLayoutEffect(() => {
    const before = document.activeElement;
    // In a microtask: by then the component is out of the document.
    return () => queueMicrotask(() => isLost() && before?.isConnected && before.focus());
  }, []);
}
