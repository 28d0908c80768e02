// Where the person is: #/VIEW/ARGUMENT. Links are plain <a href>, so the browser's history works.

import { useEffect, useState } from "./vendor/hooks.js";

/** The route in a hash: { view, argument }. Anything unknown is for the caller to refuse. */
export function parse(hash) {
  const [view = "", ...rest] = hash.replace(/^#\/?/, "").split("/");
  let argument = rest.join("/");
  try {
    argument = decodeURIComponent(argument);
  } catch {
    argument = ""; // a broken escape in a link that was typed by hand
  }
  return { view: view || "channels", argument };
}

export function link(view, argument = "") {
  return `#/${view}${argument ? `/${encodeURIComponent(argument)}` : ""}`;
}

/** #general is #/channels/general, and @1a2b3c4d is #/channels/@1a2b3c4d. */
export const roomLink = (room) => link("channels", room.replace(/^#/, "")).replace("%40", "@");
export const roomOf = (argument) => (!argument || argument.startsWith("@") ? argument : `#${argument}`);

export function go(hash) {
  if (location.hash !== hash) location.hash = hash;
}

export function useRoute() {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const follow = () => setRoute(parse(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}
