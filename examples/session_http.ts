// Uses a session from TypeScript. The client is generated from the server's OpenAPI document: docs/session-http.md.
import createClient from "openapi-fetch";
import type { paths } from "./affiant-sessions.js";

const [address, token, agent] = process.argv.slice(2);
const client = createClient<paths>({
  baseUrl: address,
  headers: { authorization: `Bearer ${token}` },
});

function done<T>(answer: { data?: T; error?: { error: { code: string; message: string } } }): T {
  if (answer.data === undefined) throw new Error(`${answer.error?.error.code}: ${answer.error?.error.message}`);
  return answer.data;
}

const created = done(await client.POST("/v1/sessions", { body: { agent: agent!, ttl: 300 } }));
const path = { session: created.session };

const input = new TextEncoder().encode("in from TypeScript\n");
const moved = done(
  await client.PUT("/v1/sessions/{session}/file", {
    params: { path, query: { path: "/workspace/in.txt" } },
    body: input as unknown as string,
    bodySerializer: (body) => body,
    headers: { "content-type": "application/octet-stream" },
  }),
);
console.log("moved", moved.length);

const ran = done(
  await client.POST("/v1/sessions/{session}/exec", {
    params: { path },
    body: { argv: ["sh", "-c", "tr a-z A-Z < in.txt > out.txt; wc -c < in.txt; exit 3"] },
  }),
);
console.log("exit", ran.exit_code, ran.stdout.trim());

const output = await client.GET("/v1/sessions/{session}/file", {
  params: { path, query: { path: "/workspace/out.txt" } },
  parseAs: "text",
});
console.log("out", (output.data as string).trim());

const rejected = await client.POST("/v1/sessions/{session}/exec", {
  params: { path },
  body: { argv: ["true"], env: { HTTPS_PROXY: "http://elsewhere" } },
});
console.log("rejected", rejected.error?.error.code, rejected.error?.error.retryable);

const stopped = done(await client.POST("/v1/sessions/{session}/stop", { params: { path } }));
console.log("stopped", stopped.session === created.session, stopped.bundle);
