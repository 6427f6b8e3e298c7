"""``README.txt`` in every period bundle: what this is, and how to look into it without us."""

from __future__ import annotations

from typing import Final

__all__ = ["README_TEXT"]

README_TEXT: Final = b"""\
AFFIANT PERIOD BUNDLE

Signed receipts of AI agents' sessions, in the order of a transparency log, with the evidence that their
signers' keys were made in. Nothing in this file is a trust anchor, this text included: bring your own trust
file (your log keys, roots, reference values, witnesses).

With affiant

    affiant bundle show FILE.affiant.zip
    affiant verify FILE.affiant.zip --trust trust.json --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z

Exit code 0 affirming, 10 warning, 20 contraindicated, 30 none, 40 simulated.

By hand

    unzip FILE.affiant.zip -d bundle && cd bundle

  1. Files are what manifest.json says (Node; no packages needed):

    node -e 'const f=require("fs"),c=require("crypto");
      const m=JSON.parse(f.readFileSync("manifest.json")).files;
      for(const p in m)if(c.createHash("sha256").update(f.readFileSync(p)).digest("hex")!==m[p].sha256)
        console.log("NOT AS LISTED",p)'

  2. Each line of receipts/*.ndjson is one JWS (ES256) as a JSON text; "kid" in its header names a key of a
     statement in keysets/. One signature, with Node:

    node -e 'const f=require("fs"),c=require("crypto");
      const [h,p,s]=JSON.parse(f.readFileSync("receipts/000000.ndjson","utf8").split("\\n")[0]).split(".");
      const kid=JSON.parse(Buffer.from(h,"base64url")).kid;
      for(const n of f.readdirSync("keysets")){const k=JSON.parse(f.readFileSync("keysets/"+n)).keys
        .find(k=>k.kid===kid);if(k)console.log(n,c.verify("sha256",Buffer.from(h+"."+p),
        {key:c.createPublicKey({key:k.jwk,format:"jwk"}),dsaEncoding:"ieee-p1363"},
        Buffer.from(s,"base64url")))}'

  3. A receipt's hash is SHA-256 of its JWS, with openssl:

    head -1 receipts/000000.ndjson | tr -d '"\\n' | openssl dgst -sha256

     That hash is the last 32 bytes of its 66-byte leaf in log/tile/entries/; log/ is C2SP tlog-tiles, and
     log/checkpoint the note that the log (and its witnesses) signed.

Receipts alone prove no completeness: whether something is missing from YOUR range is judged against the
log, and "affiant verify" prints it as chain.coverage.
"""
