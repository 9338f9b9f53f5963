//! Turns the lines of an explanation into JSON, in the form in which PostgreSQL's tools expect it:
//! a list with one object, whose `Plan` has the steps.

use placement::{ColumnType, Value, write_json_string};

use super::StatementOutcome;

/// A step of a plan: what it does, and its further lines.
#[derive(Default)]
struct Step<'a> {
    title: &'a str,
    details: Vec<(&'a str, &'a str)>,
    /// Lines without a name.
    notes: Vec<&'a str>,
}

/// Returns an explanation as one row of JSON. Other outcomes stay as they are.
pub(super) fn outcome(explained: StatementOutcome) -> StatementOutcome {
    let StatementOutcome::Rows(mut rows) = explained else {
        return explained;
    };
    let lines = rows.rows.iter().flatten().filter_map(|value| match value {
        Value::Text(line) => Some(line.as_str()),
        _ => None,
    });
    let text = json(&lines.collect::<Vec<_>>());
    rows.rows = vec![vec![Value::Json(text)]];
    for column in &mut rows.columns {
        column.column_type = Some(ColumnType::Json);
    }
    StatementOutcome::Rows(rows)
}

fn json(lines: &[&str]) -> String {
    let mut steps: Vec<Step> = Vec::new();
    // Of a statement that has run: its result, its time, and its work.
    let mut ran: Vec<(&str, &str)> = Vec::new();
    for line in lines {
        let inner = line.trim_start();
        let named = inner.split_once(": ");
        match (inner.len() == line.len(), named, steps.last_mut()) {
            (true, Some((name @ ("result" | "time"), value)), Some(_)) => ran.push((name, value)),
            (true, _, _) | (_, _, None) => steps.push(Step {
                title: inner,
                ..Step::default()
            }),
            (false, Some(detail), Some(_)) if !ran.is_empty() => ran.push(detail),
            (false, Some(detail), Some(step)) => step.details.push(detail),
            (false, None, Some(step)) => step.notes.push(inner),
        }
    }
    let mut out = String::from("[\n  {\n    \"Plan\": {");
    let mut steps = steps.iter();
    if let Some(first) = steps.next() {
        first.write(&mut out, 6);
    }
    let further: Vec<&Step> = steps.collect();
    for (number, step) in further.iter().enumerate() {
        out.push_str(if number == 0 {
            ",\n      \"Plans\": ["
        } else {
            ","
        });
        out.push_str("\n        {");
        step.write(&mut out, 10);
        out.push_str("\n        }");
    }
    if !further.is_empty() {
        out.push_str("\n      ]");
    }
    out.push_str("\n    }");
    for (name, value) in ran {
        let milliseconds = value.strip_suffix(" ms").filter(|_| name == "time");
        out.push_str(",\n    ");
        match milliseconds {
            Some(milliseconds) => {
                out.push_str("\"Execution Time\": ");
                out.push_str(milliseconds);
            }
            None => pair(&mut out, &titled(name), value),
        }
    }
    out.push_str("\n  }\n]");
    out
}

impl Step<'_> {
    fn write(&self, out: &mut String, indent: usize) {
        let mut item = |name: &str, value: &str, is_first: bool| {
            out.push_str(if is_first { "\n" } else { ",\n" });
            out.extend(std::iter::repeat_n(' ', indent));
            pair(out, name, value);
        };
        item("Node Type", self.title, true);
        for (name, value) in &self.details {
            item(&titled(name), value, false);
        }
        for (number, note) in self.notes.iter().enumerate() {
            let name = match number {
                0 => "Note".to_owned(),
                number => format!("Note {}", number + 1),
            };
            item(&name, note, false);
        }
    }
}

/// Returns a name as PostgreSQL writes it, with capital letters.
fn titled(name: &str) -> String {
    let words = name.split(' ').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|it| it.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

fn pair(out: &mut String, name: &str, value: &str) {
    // Writing to a string does not fail.
    let _ = write_json_string(out, name);
    out.push_str(": ");
    let _ = write_json_string(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_details_and_work_are_objects() {
        let text = json(&[
            "Lookup in t by index \"by a\"",
            "  range: a >= 1",
            "  replex 2 (by_a), partition 0 of 1",
            "  replex 2 (by_a), partition 1 of 1",
            "Scan of t",
            "  output: a",
            "result: 2 rows",
            "  partitions returned or counted: 2 rows",
            "time: 1.250 ms",
        ]);
        let parsed: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let plan = &parsed[0]["Plan"];
        assert_eq!(plan["Node Type"], "Lookup in t by index \"by a\"");
        assert_eq!(plan["Range"], "a >= 1");
        assert_eq!(plan["Note 2"], "replex 2 (by_a), partition 1 of 1");
        assert_eq!(plan["Plans"][0]["Output"], "a");
        assert_eq!(parsed[0]["Result"], "2 rows");
        assert_eq!(parsed[0]["Partitions Returned Or Counted"], "2 rows");
        assert_eq!(parsed[0]["Execution Time"], 1.25);
    }

    #[test]
    fn an_empty_explanation_is_json() {
        serde_json::from_str::<serde_json::Value>(&json(&[])).expect("it is JSON");
    }
}
