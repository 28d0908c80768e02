// What became of a message of the person's own: one tick when the hall has it, two when it was delivered, coloured when
// it was seen.

import { html } from "../../ui.js";
import { reached } from "../../outbox.js";

function words({ status, reason, receipt }) {
  if (status === "sending") return ["…", "On its way"];
  if (status === "failed") return ["✕", `Not sent: ${reason}`, "bad"];
  if (status === "unknown") return ["?", "The connection was lost. It may have arrived or not.", "bad"];
  const of = receipt?.of ?? 0;
  const share = (count) => (of > 1 ? `${count} of ${of}` : "");
  const seen = reached(receipt, "SEEN");
  const failed = reached(receipt, "FAILED");
  const delivered = Math.max(seen, reached(receipt, "DELIVERED"));
  if (failed) return ["✕", `Failed ${share(failed)}: ${Object.values(receipt.reasons).join("; ")}`, "bad"];
  if (seen) return ["✓✓", `Seen ${share(seen)}`, "seen"];
  if (delivered) return ["✓✓", `Delivered ${share(delivered)}`];
  if (receipt && of === 0) return ["✓", "No one else is here"];
  if (reached(receipt, "UNDELIVERED")) return ["✕", "Not delivered", "bad"];
  return ["✓", "The hall has it"];
}

export function Ticks({ message }) {
  if (!message.status) return null; // of an earlier visit
  const [ticks, label, kind] = words(message);
  return html`<span class="ticks ${kind ?? ""}" role="img" aria-label=${label.trim()} title=${label.trim()}>${ticks}</span>`;
}
