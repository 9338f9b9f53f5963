"""What Python's drivers do, through the proxy: psycopg 3 and asyncpg. Prints `done` at the end.

The one argument is a URL. Every client has its own connection to the proxy, which has fewer to the
server.
"""

import asyncio
import sys

import asyncpg
import psycopg


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
    for client in clients:
        await client.close()


pipelines(sys.argv[1])
transactions_and_cursors(sys.argv[1])
asyncio.run(asyncpg_work(sys.argv[1]))
print("done")
