"""What Python's drivers do, through the proxy: psycopg 3 and asyncpg. Then reads until standard input ends,
and prints `done`.

The one argument is a URL. Clients are more than the proxy has connections to a server.
"""

import asyncio
import datetime
import decimal
import json
import sys
import threading

import asyncpg
import psycopg

CLIENTS = 20
SLEEP = "SELECT pg_sleep(60)"
RUNNING = f"SELECT count(*) FROM pg_stat_activity WHERE query = '{SLEEP}' AND state = 'active'"
AT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=datetime.timezone.utc)
NOTE = "Grüße, '\\ \n"
TAGS = ["x", None, 'q"{}']


def fails(error, work, *values):
    try:
        work(*values)
    except error:
        return
    raise AssertionError(f"no {error}")


def types(url):
    with psycopg.connect(url, autocommit=True) as client:
        client.execute(
            """CREATE TABLE item (id int PRIMARY KEY, note text, raw bytea, at timestamptz, doc jsonb,
               tags text[], amount numeric(12, 2))"""
        )
        doc = psycopg.types.json.Jsonb({"a": [1, None]})
        raw = bytes([0, 1, 127, 128, 255])
        full = (1, NOTE, raw, AT, doc, TAGS, decimal.Decimal("12345.60"))
        empty = (2, *[None] * 6)
        for values in (full, empty):
            client.execute("INSERT INTO item VALUES (%s, %s, %b, %b, %s, %s, %b)", values)
        for binary in (False, True):
            for number, expected in ((1, (*full[:4], doc.obj, *full[5:])), (2, empty)):
                select = client.execute("SELECT * FROM item WHERE id = %s", (number,), binary=binary)
                assert select.fetchone() == expected
        large = b"replex" * 50_000
        client.execute("UPDATE item SET raw = %s WHERE id = 2", (large,))
        assert client.execute("SELECT raw FROM item WHERE id = 2").fetchone() == (large,)
        client.cursor().executemany("INSERT INTO item (id) VALUES (%s)", [(n,) for n in range(100, 400)])
        assert client.execute("SELECT count(*) FROM item WHERE id >= 100").fetchone() == (300,)


def errors_and_cancel(url):
    with psycopg.connect(url) as client, psycopg.connect(url, autocommit=True) as other:
        with client.transaction():
            client.execute("INSERT INTO item (id) VALUES (500)")
            insert = "INSERT INTO item (id) VALUES (%s)"

            def again():
                with client.transaction():
                    client.execute(insert, (500,))

            fails(psycopg.errors.UniqueViolation, again)
            client.execute(insert, (501,))
            assert other.execute("SELECT count(*) FROM item WHERE id >= 500").fetchone() == (0,)
        assert other.execute("SELECT count(*) FROM item WHERE id >= 500").fetchone() == (2,)

        client.execute("SET LOCAL statement_timeout = 50")
        fails(psycopg.errors.QueryCanceled, client.execute, SLEEP)
        client.rollback()

        # The key that the client received leads to what it runs.
        def cancel():
            while other.execute(RUNNING).fetchone() == (0,):
                pass
            client.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        fails(psycopg.errors.QueryCanceled, client.execute, SLEEP)
        canceller.join()
        client.rollback()
        assert client.execute("SELECT %s::int", (1,)).fetchone() == (1,)
        fails(psycopg.OperationalError, psycopg.connect, url.replace(":right@", ":wrong@"))
        client.rollback()

        other.execute("LISTEN news")
        client.execute("SELECT pg_notify('news', %s)", ("hello",))
        client.commit()
        heard = next(other.notifies())
        assert (heard.channel, heard.payload) == ("news", "hello")


def pipelines(url):
    with psycopg.connect(url, autocommit=True) as one, psycopg.connect(url, autocommit=True) as two:
        one.execute("CREATE TABLE p (id int PRIMARY KEY, note text)")
        with one.pipeline() as pipeline:
            for number in range(200):
                one.execute("INSERT INTO p VALUES (%s, %s)", (number, f"note {number}"))
            pipeline.sync()
            # Answered while the pipeline is open, by Flush.
            cursor = one.execute("SELECT count(*) FROM p")
            assert cursor.fetchone() == (200,)
        # An error aborts what follows it up to the next sync, and nothing else.
        insert = "INSERT INTO p VALUES (%s, 'x') RETURNING id"
        with one.pipeline() as pipeline:
            assert one.execute(insert, (1000,)).fetchone() == (1000,)
            pipeline.sync()
            bad, after = one.cursor(), one.cursor()
            for cursor, number, error in [
                (bad, 1, psycopg.errors.UniqueViolation),
                (after, 1001, psycopg.errors.PipelineAborted),
            ]:
                try:
                    cursor.execute(insert, (number,))
                    cursor.fetchone()
                    raise AssertionError(f"no {error}")
                except error:
                    pass
            pipeline.sync()
            assert one.execute(insert, (1002,)).fetchone() == (1002,)
        assert two.execute("SELECT array_agg(id) FROM p WHERE id >= 1000").fetchone() == ([1000, 1002],)
        # Statements are prepared after five times, and the connections change under them.
        for number in range(20):
            for client in (one, two):
                found = client.execute("SELECT note FROM p WHERE id = %s", (number,)).fetchone()
                assert found == (f"note {number}",)


def transactions_and_cursors(url):
    with psycopg.connect(url) as client:
        # In a transaction, as everything there.
        client.execute("SET statement_timeout = '60s'")
        client.commit()
        with client.cursor(name="server_side") as cursor:
            cursor.execute("SELECT id FROM p WHERE id < 200 ORDER BY id")
            assert len(cursor.fetchmany(50)) == 50
            assert len(cursor.fetchall()) == 150
        try:
            with client.transaction():
                client.execute("DELETE FROM p")
                raise KeyError
        except KeyError:
            pass
        assert client.execute("SELECT count(*) FROM p").fetchone() == (202,)
        with client.cursor().copy("COPY p FROM STDIN") as copy:
            for number in range(2000, 5000):
                copy.write_row((number, "copied"))
        with client.cursor().copy("COPY (SELECT * FROM p WHERE id >= 2000) TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 3000


async def asyncpg_work(url):
    clients = [await asyncpg.connect(url) for _ in range(3)]
    for client in clients:
        await client.execute("SET jit = off")
    for round in range(10):
        rows = await asyncio.gather(
            *(client.fetch("SELECT id FROM p WHERE id < $1", 10) for client in clients)
        )
        assert all(len(found) == 10 for found in rows), round
    async with clients[0].transaction():
        seen = [row["id"] async for row in clients[0].cursor("SELECT id FROM p WHERE id < 100", prefetch=7)]
        assert len(seen) == 100
    await clients[1].copy_records_to_table("p", records=[(6000, "binary")])
    await clients[2].executemany("INSERT INTO p VALUES ($1, $2)", [(n, "many") for n in range(7000, 7050)])
    assert await clients[0].fetchval("SELECT count(*) FROM p WHERE id >= 6000") == 51
    at = await clients[0].fetchrow("SELECT at, tags, doc FROM item WHERE id = $1", 1)
    assert (at["at"], at["tags"], json.loads(at["doc"])) == (AT, TAGS, {"a": [1, None]})
    try:
        await clients[0].fetchval(SLEEP, timeout=0.2)
        raise AssertionError("it was not cancelled")
    except asyncio.TimeoutError:
        assert await clients[0].fetchval("SELECT $1::int", 1) == 1
    for client in clients:
        await client.close()


async def many_at_once(url):
    """Every client counts up the same row; none gets lost. A pool resets what it is given back."""
    async with asyncpg.create_pool(url, min_size=CLIENTS, max_size=CLIENTS) as pool:
        await pool.execute("INSERT INTO item (id, amount) VALUES (60, 0)")

        async def count():
            for _ in range(10):
                async with pool.acquire() as client:
                    async with client.transaction():
                        await client.execute("UPDATE item SET amount = amount + $1 WHERE id = 60", 1)
                    assert await client.fetchval("SELECT note FROM item WHERE id = $1", 1) == NOTE

        await asyncio.gather(*(count() for _ in range(CLIENTS)))
        assert await pool.fetchval("SELECT amount FROM item WHERE id = $1", 60) == CLIENTS * 10


types(sys.argv[1])
pipelines(sys.argv[1])
transactions_and_cursors(sys.argv[1])
asyncio.run(asyncpg_work(sys.argv[1]))
asyncio.run(many_at_once(sys.argv[1]))
errors_and_cancel(sys.argv[1])
reader = threading.Thread(target=sys.stdin.read)
reader.start()
with psycopg.connect(sys.argv[1], autocommit=True) as last:
    last.execute("SELECT set_config('TimeZone', %s, false)", ("UTC",))
    while reader.is_alive():
        assert last.execute("SELECT note FROM item WHERE id = %s", (1,)).fetchone() == (NOTE,)
print("done")
