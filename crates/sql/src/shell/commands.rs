//! Executes backslash commands in the shell itself.

use crate::format::OutputFormat;
use crate::statement::Show;

/// A backslash command.
pub(super) enum Command {
    Quit,
    Help,
    Show(Show),
    /// Prints durations or not; none toggles it.
    Timing(Option<bool>),
    Format(OutputFormat),
}

/// The output of `\?`.
pub(super) const HELP: &str = "\
Commands
  \\d                     tables
  \\d TABLE               a table's columns, copies and where they are
  \\timing [on|off]       print how long each statement took
  \\format FORMAT         write results as table, csv or json
  \\? or \\h               this help
  \\q                     leave (also ctrl-D)

Statements end with a semicolon and may go over several lines
  CREATE TABLE t (id bigint PRIMARY KEY, tail text, INDEX by_tail (tail))
    WITH (partitions = 12, failures_tolerated = 2, durability = 'sync');
      INDEX name (columns) WITH (constraint = 'dense'): counts 1, 2, 3, … without gaps
  DROP TABLE [IF EXISTS] t;
  INSERT INTO t (id, tail) VALUES (1, 'N14228'), (2, NULL)
    [ON CONFLICT [(columns)] DO NOTHING | ON CONFLICT DO UPDATE SET tail = excluded.tail [WHERE …]];
  SELECT * FROM t WHERE tail = 'N14228' [AND …] [ORDER BY …] [LIMIT n] [OFFSET n];
  SELECT count(*) FROM t WHERE …;
      a table that is large is read whole only by /*+ scan */ after SELECT
  UPDATE t SET n = n + 1 WHERE id = 1 [AND …];   atomic, WHERE included
  DELETE FROM t WHERE …;
  BEGIN [READ ONLY]; SAVEPOINT a; ROLLBACK TO SAVEPOINT a; COMMIT; ROLLBACK;
      strictly serializable; after SQLSTATE 40001 begin again
  EXPLAIN SELECT | INSERT | UPDATE | DELETE …;   replex, partitions and servers touched
  SHOW TABLES; SHOW TABLE t; SHOW INDEX RANGES FROM t; SHOW SERVERS;
  SET scan = on;          statements that no index serves read whole tables, however large
  SET scan_rows = 100000; they read tables that have no more rows
  SET stale_reads = on;   reads do not wait for operations under way
Types: boolean, bigint, double precision, text, bytea, timestamp, uuid
";

/// Returns the command on a line, or the reason why there is none.
pub(super) fn parse(line: &str) -> Result<Command, String> {
    // A semicolon after a command is a habit of fingers.
    let line = line.trim().trim_end_matches(';');
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["\\q" | "\\quit"] => Ok(Command::Quit),
        ["\\?" | "\\h" | "\\help"] => Ok(Command::Help),
        ["\\d" | "\\dt"] => Ok(Command::Show(Show::Tables)),
        ["\\d", table] => {
            let show = Show::Table(table.trim_matches('"').to_string());
            Ok(Command::Show(show))
        }
        ["\\timing"] => Ok(Command::Timing(None)),
        ["\\timing", "on"] => Ok(Command::Timing(Some(true))),
        ["\\timing", "off"] => Ok(Command::Timing(Some(false))),
        ["\\format", format] => format.parse().map(Command::Format),
        _ => Err(format!(
            "{line} is no command: \\? lists the commands there are"
        )),
    }
}
