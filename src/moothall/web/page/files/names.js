// Which names of an archive may become files of the person. A name is another agent's choice (docs/files.md).

const MOST_BYTES = 255;
const DEVICES = /^(con|prn|aux|nul|clock\$|conin\$|conout\$|(com|lpt)[0-9¹²³])$/i;
const STEERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]|\p{Cs}/u;

/** Why a path must not become a file. undefined: it may. */
export function fault(path) {
  if (!path) return "it has no name";
  if (CONTROLS.test(path)) return "its name has a control character";
  if (STEERING.test(path)) return "its name changes the direction of text";
  if (path.startsWith("/") || /^[A-Za-z]:/.test(path) || path.includes("\\")) return "its path is absolute, or has a backslash";
  for (const part of path.split("/")) {
    if (part === "..") return "its path leads out of the folder";
    if (part === "" || part === "." || /[. ]$/.test(part)) return "a part of its path is empty, or ends with a dot or a space";
    if (new TextEncoder().encode(part).length > MOST_BYTES) return "its name is too long";
    if (DEVICES.test(part.split(".")[0].trimEnd())) return "its name is that of a device";
  }
  return undefined;
}

/** The name under which the browser saves it: the last part of its path. */
export const savedName = (path) => path.split("/").at(-1);
