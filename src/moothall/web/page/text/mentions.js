// Who a text speaks to: `@name` and `@id`, as agents read it (docs/take-turns.md).

const LOOKED_AT = 4096; // characters
const MENTION = /(?<![\w-])@([\w-]{1,64})/g;

/** True if a text mentions this person. */
export function isMentioned(text, { id, name }) {
  for (const [, word] of text.slice(0, LOOKED_AT).matchAll(MENTION)) {
    const said = word.toLowerCase();
    if (said === name.toLowerCase() || `@${said}` === id.toLowerCase()) return true;
  }
  return false;
}
