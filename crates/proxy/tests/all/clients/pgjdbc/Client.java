// What pgjdbc does, through the proxy. Then reads until standard input ends, and prints `done`.
//
// The one argument is a URL. Clients are more than the proxy has connections to a server.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.net.URI;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.util.PGobject;

public class Client {
  static final int CLIENTS = 20;
  static URI url;

  interface Work {
    void run() throws Exception;
  }

  static void equal(Object found, Object expected) {
    if (!Objects.deepEquals(found, expected)) {
      throw new AssertionError("found " + found + ", expected " + expected);
    }
  }

  /** Checks an error's SQLSTATE. */
  static void fails(String state, Work work) throws Exception {
    try {
      work.run();
    } catch (SQLException error) {
      equal(error.getSQLState(), state);
      return;
    }
    throw new AssertionError("nothing failed with " + state);
  }

  static Connection connect(String password, String options) throws SQLException {
    String address = "jdbc:postgresql://" + url.getAuthority().replaceFirst(".*@", "") + url.getPath();
    Connection connection =
        DriverManager.getConnection(address + "?" + options, url.getUserInfo().split(":")[0], password);
    // As frameworks do, and the driver itself, depending on its version.
    run(connection, "SET extra_float_digits = 3");
    run(connection, "SET application_name = 'client'");
    return connection;
  }

  static Connection connect(String options) throws SQLException {
    return connect(url.getUserInfo().split(":")[1], options);
  }

  /** Runs a text without parameters. */
  static void run(Connection connection, String text) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute(text);
    }
  }

  /** The only value of the only row. */
  static Object one(Connection connection, String text, Object... values) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(text)) {
      for (int number = 0; number < values.length; number++) {
        statement.setObject(number + 1, values[number]);
      }
      try (ResultSet rows = statement.executeQuery()) {
        rows.next();
        return rows.getObject(1);
      }
    }
  }

  static long count(Connection connection, int from, int to) throws SQLException {
    return (Long) one(connection, "SELECT count(*) FROM item WHERE id >= ? AND id < ?", from, to);
  }

  static void types(Connection connection) throws SQLException {
    run(connection, "CREATE TABLE item (id int PRIMARY KEY, note text, raw bytea, at timestamptz,"
        + " doc jsonb, tags text[], amount numeric(12, 2))");
    String note = "Grüße, '\\ \n";
    byte[] raw = {0, 1, 127, -128, -1};
    OffsetDateTime at = OffsetDateTime.parse("2024-02-29T12:34:56.789Z");
    PGobject doc = new PGobject();
    doc.setType("jsonb");
    doc.setValue("{\"a\": [1, null]}");
    String[] tags = {"x", null, "q\"{}"};
    BigDecimal amount = new BigDecimal("12345.60");
    try (PreparedStatement insert = connection.prepareStatement("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?)")) {
      insert.setInt(1, 1);
      insert.setString(2, note);
      insert.setBytes(3, raw);
      insert.setObject(4, at);
      insert.setObject(5, doc);
      insert.setArray(6, connection.createArrayOf("text", tags));
      insert.setBigDecimal(7, amount);
      equal(insert.executeUpdate(), 1);
      insert.setInt(1, 2);
      int[] types = {Types.VARCHAR, Types.BINARY, Types.TIMESTAMP_WITH_TIMEZONE, Types.OTHER, Types.ARRAY, Types.NUMERIC};
      for (int column = 2; column <= 7; column++) {
        insert.setNull(column, types[column - 2]);
      }
      equal(insert.executeUpdate(), 1);
    }
    // From the fifth time on it is prepared on servers, and what it gives is binary.
    try (PreparedStatement select = connection.prepareStatement("SELECT * FROM item WHERE id = ?")) {
      for (int round = 0; round < 12; round++) {
        select.setInt(1, 1);
        try (ResultSet rows = select.executeQuery()) {
          equal(rows.next(), true);
          equal(rows.getString("note"), note);
          equal(rows.getBytes("raw"), raw);
          equal(rows.getObject("at", OffsetDateTime.class).toInstant(), at.toInstant());
          equal(rows.getString("doc"), doc.getValue());
          Array found = rows.getArray("tags");
          equal(found.getArray(), tags);
          equal(rows.getBigDecimal("amount"), amount);
        }
        select.setInt(1, 2);
        try (ResultSet rows = select.executeQuery()) {
          equal(rows.next(), true);
          for (int column = 2; column <= 7; column++) {
            equal(rows.getObject(column), null);
          }
        }
      }
    }
    byte[] large = "replex".repeat(50_000).getBytes();
    try (PreparedStatement update = connection.prepareStatement("UPDATE item SET raw = ? WHERE id = 2")) {
      update.setBytes(1, large);
      equal(update.executeUpdate(), 1);
    }
    equal(one(connection, "SELECT raw FROM item WHERE id = ?", 2), large);
  }

  static void transactions(Connection connection, Connection other) throws Exception {
    connection.setAutoCommit(false);
    run(connection, "INSERT INTO item (id) VALUES (10)");
    Savepoint here = connection.setSavepoint();
    fails("23505", () -> run(connection, "INSERT INTO item (id) VALUES (10)"));
    fails("25P02", () -> run(connection, "SELECT 1"));
    connection.rollback(here);
    run(connection, "INSERT INTO item (id) VALUES (11)");
    equal(count(connection, 10, 12), 2L);
    equal(count(other, 10, 12), 0L);
    connection.commit();
    equal(count(other, 10, 12), 2L);
    run(connection, "DELETE FROM item WHERE id = 10");
    connection.rollback();
    equal(count(other, 10, 12), 2L);
    connection.setReadOnly(true);
    connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
    equal(count(connection, 10, 12), 2L);
    fails("25006", () -> run(connection, "DELETE FROM item WHERE id = 10"));
    connection.rollback();
    connection.setReadOnly(false);
    connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
    connection.setAutoCommit(true);
    fails("42601", () -> run(connection, "SELEC"));
    equal(one(connection, "SELECT ?::int", 7), 7);
  }

  static int[] batch(Connection connection, int from, int... more) throws SQLException {
    try (PreparedStatement insert = connection.prepareStatement("INSERT INTO item (id, note) VALUES (?, ?)")) {
      for (int number = 0; number < 300; number++) {
        insert.setInt(1, number < more.length ? more[number] : from + number);
        insert.setString(2, "batch");
        insert.addBatch();
      }
      return insert.executeBatch();
    }
  }

  static void batches(Connection connection, Connection rewriting) throws Exception {
    for (Connection each : List.of(connection, rewriting)) {
      int start = each == connection ? 100 : 500;
      equal(batch(each, start).length, 300);
      equal(count(each, start, start + 300), 300L);
      try {
        batch(each, 7000, 7000, start);
        throw new AssertionError("a row was there twice");
      } catch (BatchUpdateException error) {
        equal(error.getSQLState(), "23505");
      }
      equal(count(each, 7000, 8000), 0L);
      try (Statement several = each.createStatement()) {
        several.addBatch("UPDATE item SET note = 'changed' WHERE id = " + start);
        several.addBatch("DELETE FROM item WHERE id IN (" + (start + 1) + ", " + (start + 2) + ")");
        equal(several.executeBatch(), new int[] {1, 2});
      }
      try (PreparedStatement keys = each.prepareStatement(
          "INSERT INTO item (id) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
        for (int number = 1; number <= 2; number++) {
          keys.setInt(1, start + number);
          keys.addBatch();
        }
        keys.executeBatch();
        List<Integer> found = new ArrayList<>();
        for (ResultSet rows = keys.getGeneratedKeys(); rows.next(); ) {
          found.add(rows.getInt(1));
        }
        equal(found, List.of(start + 1, start + 2));
      }
    }
  }

  static void cursorsAndCopy(Connection connection) throws Exception {
    var copies = connection.unwrap(PGConnection.class).getCopyAPI();
    StringBuilder lines = new StringBuilder();
    for (int id = 1000; id < 6000; id++) {
      lines.append(id).append("\tcopied\n");
    }
    equal(copies.copyIn("COPY item (id, note) FROM STDIN", new StringReader(lines.toString())), 5000L);
    fails("22P02", () -> copies.copyIn("COPY item (id) FROM STDIN", new StringReader("7000\nseven\n")));
    StringWriter out = new StringWriter();
    copies.copyOut("COPY (SELECT id, note FROM item WHERE id BETWEEN 1000 AND 5999) TO STDOUT", out);
    equal(out.toString(), lines.toString());
    // A portal gives 500 rows at a time, between which others run on the same connection.
    connection.setAutoCommit(false);
    try (PreparedStatement select = connection.prepareStatement("SELECT id FROM item WHERE id >= ? ORDER BY id")) {
      select.setFetchSize(500);
      select.setInt(1, 1000);
      int expected = 1000;
      try (ResultSet rows = select.executeQuery()) {
        while (rows.next()) {
          equal(rows.getInt(1), expected);
          if (expected % 700 == 0) {
            equal(one(connection, "SELECT ?::int", expected), expected);
          }
          expected++;
        }
      }
      equal(expected, 6000);
      try (ResultSet rows = select.executeQuery()) {
        equal(rows.next(), true);
      }
    }
    connection.commit();
    connection.setAutoCommit(true);
  }

  static void cancelled(Connection connection, Connection other) throws Exception {
    connection.setAutoCommit(false);
    run(connection, "SET LOCAL statement_timeout = 50");
    fails("57014", () -> run(connection, "SELECT pg_sleep(60)"));
    connection.rollback();
    connection.setAutoCommit(true);
    // The key that the client was told leads to what it runs.
    try (Statement asleep = connection.createStatement()) {
      ExecutorService threads = Executors.newSingleThreadExecutor();
      Future<?> canceller = threads.submit((Callable<Void>) () -> {
        String running = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'";
        while ((Long) one(other, running) == 0) {
        }
        asleep.cancel();
        return null;
      });
      fails("57014", () -> asleep.execute("SELECT pg_sleep(60)"));
      canceller.get();
      threads.shutdown();
      // The driver's own timer does the same.
      asleep.setQueryTimeout(1);
      fails("57014", () -> asleep.execute("SELECT pg_sleep(60)"));
    }
    equal(one(connection, "SELECT ?::int", 1), 1);
  }

  static void notifications(Connection connection, Connection other) throws SQLException {
    run(connection, "LISTEN news");
    one(other, "SELECT pg_notify('news', ?)::text", "hello");
    PGNotification[] heard = connection.unwrap(PGConnection.class).getNotifications(60_000);
    equal(heard.length, 1);
    equal(heard[0].getName() + " " + heard[0].getParameter(), "news hello");
  }

  /** Every client counts up the same row; none gets lost. */
  static void manyAtOnce(Connection first) throws Exception {
    run(first, "INSERT INTO item (id, amount) VALUES (60, 0)");
    ExecutorService threads = Executors.newFixedThreadPool(CLIENTS);
    List<Connection> clients = new ArrayList<>();
    List<Future<?>> all = new ArrayList<>();
    for (int number = 0; number < CLIENTS; number++) {
      Connection client = connect("");
      clients.add(client);
      all.add(threads.submit((Callable<Void>) () -> {
        for (int round = 0; round < 10; round++) {
          client.setAutoCommit(false);
          try (PreparedStatement update = client.prepareStatement("UPDATE item SET amount = amount + ? WHERE id = 60")) {
            update.setInt(1, 1);
            equal(update.executeUpdate(), 1);
          }
          client.commit();
          client.setAutoCommit(true);
          equal(one(client, "SELECT note FROM item WHERE id = ?", 1000 + round), "copied");
        }
        return null;
      }));
    }
    for (Future<?> each : all) {
      each.get();
    }
    threads.shutdown();
    equal(one(first, "SELECT amount::int FROM item WHERE id = ?", 60), CLIENTS * 10);
    for (Connection client : clients) {
      client.close();
    }
  }

  public static void main(String[] arguments) throws Exception {
    url = URI.create(arguments[0]);
    try (Connection first = connect(""); Connection second = connect("");
        Connection rewriting = connect("reWriteBatchedInserts=true");
        Connection simple = connect("preferQueryMode=simple")) {
      types(first);
      equal(one(simple, "SELECT note FROM item WHERE id = ?", 2), null);
      transactions(first, second);
      batches(first, rewriting);
      cursorsAndCopy(first);
      cancelled(first, second);
      manyAtOnce(first);
      notifications(first, second);
      fails("28P01", () -> connect("wrong", ""));
      ExecutorService threads = Executors.newSingleThreadExecutor();
      Future<byte[]> input = threads.submit(() -> System.in.readAllBytes());
      while (!input.isDone()) {
        equal(one(second, "SELECT note FROM item WHERE id = ?", 1000), "copied");
      }
      threads.shutdown();
    }
    System.out.println("done");
  }
}
