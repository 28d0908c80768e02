// Files that the person takes out of the page. Names are made safe before they get here.

const KEPT = 60000; // milliseconds in which the browser reads the file

export function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT);
}

export const saveText = (name, text, type = "text/plain") => saveBlob(name, new Blob([text], { type }));
