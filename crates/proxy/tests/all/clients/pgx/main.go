// What pgx does, through the proxy. Then reads until standard input ends, and prints `done`.
//
// The one argument is a URL. Clients are more than the proxy has connections to a server.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

const clients = 20

var ctx = context.Background()

// must ends the program with an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("found %#v, expected %#v", found, expected))
	}
}

// fails checks an error's SQLSTATE.
func fails(err error, code string) {
	var report *pgconn.PgError
	if !errors.As(err, &report) || report.Code != code {
		panic(fmt.Sprintf("expected SQLSTATE %s, got: %v", code, err))
	}
}

func connect(url string) *pgx.Conn {
	conn, err := pgx.Connect(ctx, url)
	must(err)
	return conn
}

// one gives the only value of the only row.
func one[T any](db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, text string, values ...any) T {
	var found T
	must(db.QueryRow(ctx, text, values...).Scan(&found))
	return found
}

type item struct {
	ID     int32
	Note   *string
	Raw    []byte
	At     *time.Time
	Doc    *string
	Tags   []*string
	Amount *string
}

const insert = `INSERT INTO item (id, note, raw, at, doc, tags, amount)
	VALUES ($1, $2, $3, $4, $5, $6, $7::text::numeric)`

func read(conn *pgx.Conn, mode pgx.QueryExecMode, id int32) item {
	text := `SELECT id, note, raw, at, doc, tags, amount::text FROM item WHERE id = $1`
	rows, err := conn.Query(ctx, text, mode, id)
	must(err)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[item])
	must(err)
	if found.At != nil {
		utc := found.At.UTC()
		found.At = &utc
	}
	return found
}

// types go both ways in each of the modes in which pgx speaks to a server.
func types(conn *pgx.Conn) {
	_, err := conn.Exec(ctx, `CREATE TABLE item (id int PRIMARY KEY, note text, raw bytea, at timestamptz,
		doc jsonb, tags text[], amount numeric(12, 2))`)
	must(err)
	note, doc, tag, amount := "Grüße, '\\ \n", `{"a": [1, null]}`, `q"{}`, "12345.60"
	at := time.Date(2024, 2, 29, 12, 34, 56, 789000000, time.UTC)
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	for number, mode := range modes {
		full := item{int32(number), &note, []byte{0, 1, 127, 128, 255}, &at, &doc,
			[]*string{&tag, nil}, &amount}
		empty := item{ID: int32(number) + 10}
		for _, it := range []item{full, empty} {
			_, err := conn.Exec(ctx, insert, mode, it.ID, it.Note, it.Raw, it.At, it.Doc, it.Tags, it.Amount)
			must(err)
			for range 3 {
				equal(read(conn, mode, it.ID), it)
			}
		}
	}
	large := bytes.Repeat([]byte("replex"), 50_000)
	_, err = conn.Exec(ctx, "UPDATE item SET raw = $1 WHERE id = 10", large)
	must(err)
	equal(one[[]byte](conn, "SELECT raw FROM item WHERE id = $1", 10), large)
}

func preparedStatements(first, second *pgx.Conn) {
	// A name is one client's own.
	for number, conn := range []*pgx.Conn{first, second} {
		_, err := conn.Prepare(ctx, "sum", fmt.Sprintf("SELECT $1::int + %d", number))
		must(err)
	}
	for round := range 10 {
		equal(one[int](first, "sum", round), round)
		equal(one[int](second, "sum", round), round+1)
	}
	must(first.Deallocate(ctx, "sum"))
	_, err := first.Prepare(ctx, "sum", "SELECT $1::int + 7")
	must(err)
	equal(one[int](first, "sum", 1), 8)
	_, err = first.Exec(ctx, "CREATE TABLE changed (id int PRIMARY KEY)")
	must(err)
	columns := func(conn *pgx.Conn) (int, error) {
		rows, err := conn.Query(ctx, "SELECT * FROM changed")
		must(err)
		rows.Close()
		return len(rows.FieldDescriptions()), rows.Err()
	}
	for range 10 {
		count, err := columns(first)
		must(err)
		equal(count, 1)
	}
	_, err = first.Exec(ctx, "ALTER TABLE changed ADD COLUMN note text")
	must(err)
	// Whoever prepares it now is told of both columns, though servers know it from before.
	must(first.DeallocateAll(ctx))
	for _, conn := range []*pgx.Conn{second, first} {
		for range 10 {
			count, err := columns(conn)
			must(err)
			equal(count, 2)
		}
	}
}

func transactions(conn, other *pgx.Conn) {
	tx, err := conn.Begin(ctx)
	must(err)
	_, err = tx.Exec(ctx, "INSERT INTO item (id) VALUES ($1)", 30)
	must(err)
	inner, err := tx.Begin(ctx)
	must(err)
	_, err = inner.Exec(ctx, "INSERT INTO item (id) VALUES ($1)", 30)
	fails(err, "23505")
	_, err = inner.Exec(ctx, "SELECT 1")
	fails(err, "25P02")
	must(inner.Rollback(ctx))
	_, err = tx.Exec(ctx, "INSERT INTO item (id) VALUES ($1)", 31)
	must(err)
	count := "SELECT count(*) FROM item WHERE id = ANY($1)"
	equal(one[int](tx, count, []int{30, 31}), 2)
	equal(one[int](other, count, []int{30, 31}), 0)
	must(tx.Commit(ctx))
	equal(one[int](other, count, []int{30, 31}), 2)
	gone := errors.New("rolled back")
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM item WHERE id = 30")
		must(err)
		return gone
	})
	equal(err, gone)
	equal(one[int](other, count, []int{30, 31}), 2)
	readOnly := pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}
	tx, err = conn.BeginTx(ctx, readOnly)
	must(err)
	equal(one[int](tx, count, []int{30, 31}), 2)
	_, err = tx.Exec(ctx, "DELETE FROM item WHERE id = 30")
	fails(err, "25006")
	must(tx.Rollback(ctx))
}

// batches are answered in order; an error takes all of a batch back, and nothing else.
func batches(conn *pgx.Conn) {
	batch := &pgx.Batch{}
	for number := range 100 {
		batch.Queue("INSERT INTO item (id, note) VALUES ($1, $2)", 100+number, "batch")
		batch.Queue("SELECT note FROM item WHERE id = $1", 100+number)
	}
	results := conn.SendBatch(ctx, batch)
	for range 100 {
		_, err := results.Exec()
		must(err)
		var note string
		must(results.QueryRow().Scan(&note))
		equal(note, "batch")
	}
	must(results.Close())
	batch = &pgx.Batch{}
	for _, id := range []int{300, 100, 301} {
		batch.Queue("INSERT INTO item (id) VALUES ($1)", id)
	}
	fails(conn.SendBatch(ctx, batch).Close(), "23505")
	equal(one[int](conn, "SELECT count(*) FROM item WHERE id >= $1", 300), 0)
	// In a pipeline each Sync ends a batch: only the second fails.
	pipeline := conn.PgConn().StartPipeline(ctx)
	for _, id := range []string{"400", "oops", "401"} {
		pipeline.SendQueryParams("INSERT INTO item (id) VALUES ($1)", [][]byte{[]byte(id)}, nil, nil, nil)
		must(pipeline.Sync())
	}
	failures := 0
	for syncs := 0; syncs < 3; {
		results, err := pipeline.GetResults()
		if err != nil {
			fails(err, "22P02")
			failures++
			continue
		}
		switch results := results.(type) {
		case *pgconn.ResultReader:
			_, err := results.Close()
			must(err)
		case *pgconn.PipelineSync:
			syncs++
		}
	}
	must(pipeline.Close())
	equal(failures, 1)
	equal(one[int](conn, "SELECT count(*) FROM item WHERE id >= $1", 400), 2)
}

func copies(conn *pgx.Conn) {
	rows := pgx.CopyFromSlice(5000, func(number int) ([]any, error) {
		return []any{1000 + number, "copied", []byte{byte(number)}}, nil
	})
	count, err := conn.CopyFrom(ctx, pgx.Identifier{"item"}, []string{"id", "note", "raw"}, rows)
	must(err)
	equal(count, int64(5000))
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"item"}, []string{"id"}, pgx.CopyFromRows([][]any{{7000}, {1000}}))
	fails(err, "23505")
	_, err = conn.PgConn().CopyFrom(ctx, strings.NewReader("7001\n7002\n"), "COPY item (id) FROM STDIN")
	must(err)
	var out bytes.Buffer
	_, err = conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT note FROM item WHERE id BETWEEN 1000 AND 5999) TO STDOUT")
	must(err)
	equal(out.String(), strings.Repeat("copied\n", 5000))
	// Rows that nobody reads to the end.
	found, err := conn.Query(ctx, "SELECT id FROM item WHERE id >= $1", 1000)
	must(err)
	equal(found.Next(), true)
	found.Close()
	equal(one[int](conn, "SELECT $1::int", 1), 1)
}

func cancelled(url string, other *pgx.Conn) {
	config, err := pgx.ParseConfig(url)
	must(err)
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Minute}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	must(err)
	tx, err := conn.Begin(ctx)
	must(err)
	_, err = tx.Exec(ctx, "SET LOCAL statement_timeout = 50")
	must(err)
	_, err = tx.Exec(ctx, "SELECT pg_sleep(60)")
	fails(err, "57014")
	must(tx.Rollback(ctx))
	// The key that the client was told leads to what it runs.
	cancellable, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		_, err := conn.Exec(cancellable, "SELECT pg_sleep(60)")
		ended <- err
	}()
	running := "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'"
	for one[int](other, running) == 0 {
	}
	cancel()
	fails(<-ended, "57014")
	equal(one[int](conn, "SELECT $1::int", 1), 1)
	must(conn.Close(ctx))
}

func notifications(conn, other *pgx.Conn) {
	_, err := conn.Exec(ctx, "LISTEN news")
	must(err)
	_, err = other.Exec(ctx, "SELECT pg_notify($1, $2)", "news", "hello")
	must(err)
	heard, err := conn.WaitForNotification(ctx)
	must(err)
	equal([]string{heard.Channel, heard.Payload}, []string{"news", "hello"})
}

// manyAtOnce has every client count up the same row; none gets lost.
func manyAtOnce(url string) {
	config, err := pgxpool.ParseConfig(url)
	must(err)
	config.MaxConns = clients
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(err)
	defer pool.Close()
	_, err = pool.Exec(ctx, "INSERT INTO item (id, amount) VALUES (60, 0)")
	must(err)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			conn, err := pool.Acquire(ctx)
			must(err)
			defer conn.Release()
			for round := range 10 {
				must(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "UPDATE item SET amount = amount + $1 WHERE id = 60", 1)
					return err
				}))
				equal(one[string](conn, "SELECT note FROM item WHERE id = $1", 1000+round), "copied")
			}
		})
	}
	all.Wait()
	equal(one[int](pool, "SELECT amount::int FROM item WHERE id = $1", 60), clients*10)
}

func main() {
	url := os.Args[1]
	first, second := connect(url), connect(url)
	types(first)
	preparedStatements(first, second)
	transactions(first, second)
	batches(first)
	copies(first)
	cancelled(url, second)
	manyAtOnce(url)
	notifications(first, second)
	_, err := pgx.Connect(ctx, strings.Replace(url, ":right@", ":wrong@", 1))
	fails(err, "28P01")
	over := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		over <- err
	}()
	for isOpen := true; isOpen; {
		equal(one[string](second, "SELECT note FROM item WHERE id = $1", 1000), "copied")
		select {
		case err := <-over:
			must(err)
			isOpen = false
		default:
		}
	}
	must(first.Close(ctx))
	must(second.Close(ctx))
	fmt.Println("done")
}
