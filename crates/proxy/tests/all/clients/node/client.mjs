// What node-postgres does, through the proxy. Then reads until standard input ends, and prints `done`.
//
// The one argument is a URL. Clients are more than the proxy has connections to a server.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import copyStreams from "pg-copy-streams";
import Cursor from "pg-cursor";

const url = process.argv[2];
const CLIENTS = 20;

async function connect() {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("SET client_min_messages TO warning; SET SESSION intervalstyle TO 'iso_8601'");
  return client;
}

/** The SQLSTATE that a promise is rejected with. */
async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code;
  }
  return "nothing failed";
}

const INSERT = `INSERT INTO item (id, note, raw, at, doc, tags, amount) VALUES ($1, $2, $3, $4, $5, $6, $7)
  RETURNING *`;

async function types(client) {
  await client.query(`CREATE TABLE item (id int PRIMARY KEY, note text, raw bytea, at timestamptz,
    doc jsonb, tags text[], amount numeric(12, 2))`);
  const at = new Date("2024-02-29T12:34:56.789Z");
  const raw = Buffer.from([0, 1, 127, 128, 255]);
  const values = [1, "Grüße, '\\ \n", raw, at, { a: [1, null] }, ["x", null, 'q"{}'], "12345.60"];
  const expected = { id: 1, note: values[1], raw, at, doc: { a: [1, null] }, tags: values[5], amount: "12345.60" };
  assert.deepEqual({ ...(await client.query(INSERT, values)).rows[0] }, expected);
  const nothing = [2, null, null, null, null, null, null];
  await client.query(INSERT, nothing);
  for (const binary of [false, true]) {
    // It reads no other types as binary.
    const text = "SELECT id, note FROM item WHERE id = $1";
    const { rows } = await client.query({ text, values: [1], binary });
    assert.deepEqual({ ...rows[0] }, { id: 1, note: values[1] });
  }
  const { rows } = await client.query("SELECT * FROM item WHERE id = $1", [2]);
  assert.deepEqual(Object.values(rows[0]), nothing);
  const large = Buffer.alloc(300_000, "replex");
  await client.query("UPDATE item SET raw = $1 WHERE id = 2", [large]);
  const read = await client.query("SELECT raw FROM item WHERE id = $1", [2]);
  assert.deepEqual(read.rows[0].raw, large);
  const several = await client.query("SELECT 1 AS one; SELECT 2 AS two");
  assert.deepEqual(several.map((result) => Object.values(result.rows[0])[0]), [1, 2]);
}

async function preparedStatements(clients) {
  for (let round = 0; round < 10; round += 1) {
    for (const client of clients) {
      const query = { name: "by-id", text: "SELECT note FROM item WHERE id = $1", values: [1] };
      const { rows } = await client.query(query);
      assert.match(rows[0].note, /^Grüße/);
    }
  }
  // A name is one client's own.
  const [one, two] = clients;
  const sum = (text) => ({ name: "sum", text, values: [40] });
  assert.equal((await one.query(sum("SELECT $1::int + 1 AS n"))).rows[0].n, 41);
  assert.equal((await two.query(sum("SELECT $1::int + 2 AS n"))).rows[0].n, 42);
  assert.equal((await one.query(sum("SELECT $1::int + 1 AS n"))).rows[0].n, 41);
}

async function transactions(client, other) {
  await client.query("BEGIN");
  await client.query("INSERT INTO item (id) VALUES (10)");
  await client.query("SAVEPOINT here");
  assert.equal(await failure(client.query("INSERT INTO item (id) VALUES ($1)", [10])), "23505");
  assert.equal(await failure(client.query("SELECT 1")), "25P02");
  await client.query("ROLLBACK TO here");
  await client.query("INSERT INTO item (id) VALUES ($1)", [11]);
  const count = "SELECT count(*)::int AS n FROM item WHERE id IN (10, 11)";
  assert.equal((await client.query(count)).rows[0].n, 2);
  assert.equal((await other.query(count)).rows[0].n, 0);
  await client.query("COMMIT");
  assert.equal((await other.query(count)).rows[0].n, 2);
  await client.query("BEGIN");
  await client.query("DELETE FROM item WHERE id = ANY($1)", [[10, 11]]);
  await client.query("ROLLBACK");
  assert.equal((await other.query(count)).rows[0].n, 2);
  // All are sent before the first is answered; one of them fails.
  const answers = await Promise.allSettled([
    client.query("SELECT 1 AS n"),
    client.query("SELECT 1 / $1::int", [0]),
    client.query("SELEC"),
    client.query("SELECT $1::int AS n", [4]),
  ]);
  assert.deepEqual(answers.map((answer) => answer.reason?.code ?? answer.value.rows[0].n), [1, "22012", "42601", 4]);
}

async function cursorsAndCopy(client) {
  const into = client.query(copyStreams.from("COPY item (id, note) FROM STDIN"));
  await pipeline(Readable.from(lines(1000, 6000)), into);
  assert.equal(into.rowCount, 5000);
  const wrong = client.query(copyStreams.from("COPY item (id, note) FROM STDIN"));
  assert.equal(await failure(pipeline(Readable.from(["7000\tgood\n", "seven\tbad\n"]), wrong)), "22P02");
  let text = "";
  for await (const chunk of client.query(copyStreams.to("COPY (SELECT id FROM item WHERE id >= 1000) TO STDOUT"))) {
    text += chunk;
  }
  assert.equal(text.split("\n").length, 5001);
  const cursor = client.query(new Cursor("SELECT id FROM item WHERE id >= $1 ORDER BY id", [1000]));
  for (let start = 1000; start < 6000; start += 500) {
    const rows = await cursor.read(500);
    assert.deepEqual([rows.length, rows[0].id], [500, start]);
  }
  assert.deepEqual(await cursor.read(500), []);
  const left = client.query(new Cursor("SELECT id FROM item WHERE id >= $1", [1000]));
  assert.equal((await left.read(3)).length, 3);
  await left.close();
  assert.equal((await client.query("SELECT 1 AS n")).rows[0].n, 1);
}

function* lines(start, end) {
  for (let id = start; id < end; id += 1) {
    yield `${id}\tcopied\n`;
  }
}

async function cancelled(client, other) {
  await client.query("BEGIN");
  await client.query("SET LOCAL statement_timeout = 50");
  assert.equal(await failure(client.query("SELECT pg_sleep(60)")), "57014");
  await client.query("ROLLBACK");
  // The key that the client was told leads to what it runs.
  const asleep = failure(client.query("SELECT pg_sleep(60)"));
  const running = "SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'";
  while ((await other.query(running)).rowCount === 0);
  const connection = new pg.Connection({});
  connection.once("connect", () => connection.cancel(client.processID, client.secretKey));
  connection.on("error", () => {});
  connection.connect(other.port, other.host);
  assert.equal(await asleep, "57014");
}

async function notifications(client, other) {
  const heard = new Promise((resolve) => client.on("notification", resolve));
  await client.query("LISTEN news");
  await other.query("SELECT pg_notify('news', $1)", ["hello"]);
  const { channel, payload } = await heard;
  assert.deepEqual([channel, payload], ["news", "hello"]);
  await client.query("UNLISTEN news");
}

/** Every client counts up the same row; none gets lost. */
async function manyAtOnce(clients) {
  await clients[0].query("INSERT INTO item (id, amount) VALUES (20, 0)");
  await Promise.all(
    clients.map(async (client) => {
      for (let round = 0; round < 10; round += 1) {
        await client.query("BEGIN");
        await client.query("UPDATE item SET amount = amount + $1 WHERE id = 20", [1]);
        await client.query("COMMIT");
        const { rows } = await client.query("SELECT note FROM item WHERE id = $1", [1000 + round]);
        assert.equal(rows[0].note, "copied");
      }
    }),
  );
  const { rows } = await clients[0].query("SELECT amount FROM item WHERE id = 20");
  assert.equal(rows[0].amount, `${CLIENTS * 10}.00`);
}

const clients = await Promise.all(Array.from({ length: CLIENTS }, connect));
const [one, two] = clients;
await types(one);
await preparedStatements(clients.slice(0, 5));
await transactions(one, two);
await cursorsAndCopy(one);
await cancelled(one, two);
await manyAtOnce(clients);
await notifications(one, two);
const bad = new pg.Client({ connectionString: url.replace(/:[^:@]*@/, ":wrong@") });
assert.equal(await failure(bad.connect()), "28P01");
let isOpen = true;
process.stdin.on("end", () => (isOpen = false)).resume();
while (isOpen) {
  const { rows } = await two.query("SELECT note FROM item WHERE id = $1", [1000]);
  assert.equal(rows[0].note, "copied");
}
await Promise.all(clients.map((client) => client.end()));
console.log("done");
