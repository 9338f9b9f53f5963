//! Runs Active Record's tests for PostgreSQL, with Debian's Ruby.

use std::path::Path;
use std::time::Duration;

use super::{Suite, debian, judge, once};
use crate::outcomes::TestOutcomes;
use crate::servers::{SuiteRequirements, SuiteTarget};
use crate::{Failure, program};

/// How long the suite may take.
const MOST: Duration = Duration::from_secs(45 * 60);
/// The database for the tests of several connections. The proxy only pools connections to it.
const SECOND: &str = "foreign_second";

/// Configures the connections. The host, the port and the databases come from the environment.
const CONFIG: &str = r#"
<% server = { "host" => ENV["PGHOST"], "port" => ENV["PGPORT"].to_i, "username" => ENV["PGUSER"], "min_messages" => "warning" } %>
default_connection: postgresql
connections:
  postgresql:
    arunit: <%= server.merge("database" => ENV["PGDATABASE"]).to_json %>
    arunit_without_prepared_statements: <%= server.merge("database" => ENV["PGDATABASE"], "prepared_statements" => false).to_json %>
    arunit2: <%= server.merge("database" => ENV["SECOND_DATABASE"]).to_json %>
"#;

/// Loads every test file that needs no other database, and prints a line for each test. The order
/// of the tests is the same in each run.
const SCRIPT: &str = r#"
require "json"
require "cases/helper"
class Outcomes < Minitest::AbstractReporter
  def record(result)
    outcome = result.skipped? ? "skipped" : result.passed? ? "ok" : "not ok"
    puts "\nTEST #{outcome} #{result.klass}##{result.name}"
    puts result.failures.first.message unless result.passed?
  end
end
module Minitest
  def self.plugin_outcomes_init(options)
    reporter << Outcomes.new
  end
end
Minitest.extensions << "outcomes"
ARGV.replace(["--seed", "1"])
files = Dir.glob("test/cases/**/*_test.rb").sort
files.reject { |file| file =~ /adapters\/(mysql2|sqlite3)/ }.each do |file|
  begin
    require "./#{file}"
  rescue LoadError => error
    puts "left out: #{file}: #{error.message}"
  end
end
"#;

pub const ACTIVE_RECORD: Suite = Suite {
    name: "activerecord",
    about: "Active Record, Debian's version",
    needs: SuiteRequirements {
        database: "foreign_test",
        settings: &[],
    },
    known: include_str!("../../known/activerecord.txt"),
    known_of_store: None,
    fetch: |folder| {
        once(folder, "debian", |part| {
            debian::unpack_installed("rails", "ruby-activerecord", part)?;
            let config = part.join("source/activerecord/test/config.yml");
            std::fs::write(&config, CONFIG)
                .map_err(|error| format!("{}: {error}", config.display()))
        })
    },
    run,
};

fn run(folder: &Path, target: &SuiteTarget) -> Result<TestOutcomes, Failure> {
    target.psql(&format!("CREATE DATABASE {SECOND}"))?;
    let source = folder.join("debian/source/activerecord");
    let mut ruby = program::words("ruby -W0 -Itest -Ilib", &source);
    for part in ["activesupport", "activemodel"] {
        ruby.arg(format!("-I../{part}/lib"));
    }
    ruby.args(["-e", SCRIPT]).envs(target.environment());
    ruby.env("SECOND_DATABASE", SECOND);
    judge(&mut ruby, (folder, target), MOST, outcomes)
}

/// Reads the lines that [`SCRIPT`] prints.
fn outcomes(printed: &str) -> TestOutcomes {
    let mut outcomes = TestOutcomes::default();
    for line in printed.lines() {
        if let Some(name) = line.strip_prefix("TEST ok ") {
            outcomes.note(name, true);
        } else if let Some(name) = line.strip_prefix("TEST not ok ") {
            outcomes.note(name, false);
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let printed =
            "\nTEST ok A#test_a\n..\nTEST not ok A#test_b\nwhy\n\nTEST skipped A#test_c\n";
        assert_eq!(outcomes(printed).sums(), (1, 1));
    }
}
