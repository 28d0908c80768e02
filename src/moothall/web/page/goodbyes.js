// Messages with which the hall ends the stay of a person, and questions that the page answers by itself.

import { listen } from "./feed.js";
import { endStay, signer, tell } from "./session.js";
import { notify } from "./store.js";

const NONCE = /^[0-9a-f]{32}$/; // nothing else is signed: a longer text could be a deal

listen("SESSION_DISPLACED", () => endStay("You joined with this key somewhere else. Only one place can use it at a time."));
listen("KICKED", ({ reason }) => endStay(`The operator closed your connection: ${reason}`));
listen("BANNED", ({ reason }) => endStay(`The operator banned this key: ${reason}`));
listen("KEY_REVOKED", () => endStay("This key was revoked. Forget it, and join with a new one."));
listen("ERROR", ({ message }) => notify(message, "error"));

listen("VERIFY_REQUEST", async ({ request_id, nonce, status }) => {
  const identity = signer();
  if (status !== undefined || !identity || !NONCE.test(nonce)) return;
  tell({ type: "VERIFY_RESPONSE", request_id, nonce, sig: await identity.sign(nonce) });
});
