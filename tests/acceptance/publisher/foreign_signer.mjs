// An independent signer and verifier of events, from the specification alone:
// RFC 8785 canonical JSON, HMAC-SHA256 keyed with the job's token, lower-case hex in data.hmac_sig.
//
//   node foreign_signer.mjs sign TOKEN_FILE    stdin: an event without signature   stdout: the signed event
//   node foreign_signer.mjs verify TOKEN_FILE  stdin: a signed event               stdout: genuine | forged

import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

// RFC 8785: ECMAScript's own number and string forms, keys sorted by UTF-16 code units.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${members.join(",")}}`;
}

function signature(event, token) {
  const { hmac_sig: _, ...data } = event.data;
  return createHmac("sha256", Buffer.from(token, "utf8")).update(canonical({ ...event, data }), "utf8").digest("hex");
}

const [mode, tokenFile] = process.argv.slice(2);
const token = readFileSync(tokenFile, "utf8").trim();
const event = JSON.parse(readFileSync(0, "utf8"));

if (mode === "sign") {
  event.data.hmac_sig = signature(event, token);
  // Deliberately not canonical: the signature must not depend on how the event travels.
  process.stdout.write(JSON.stringify(event));
} else {
  const claimed = Buffer.from(String(event.data.hmac_sig), "utf8");
  const actual = Buffer.from(signature(event, token), "utf8");
  const genuine = claimed.length === actual.length && timingSafeEqual(claimed, actual);
  process.stdout.write(genuine ? "genuine" : "forged");
}
