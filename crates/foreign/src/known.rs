//! Lists the known differences, each with its reason: one line has a test's name, a tab, and the
//! reason. A name that ends with `*` stands for all names with this beginning.

use crate::Failure;

/// The known differences of one suite.
#[derive(Debug)]
pub struct KnownDifferences {
    /// Name or beginning of a name, whether it is a beginning, and the reason.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    is_beginning: bool,
    reason: String,
}

impl Entry {
    fn is(&self, test: &str) -> bool {
        match self.is_beginning {
            true => test.starts_with(&self.name),
            false => test == self.name,
        }
    }
}

impl KnownDifferences {
    /// Parses a list. Empty lines and lines that begin with `#` are ignored.
    pub fn parse(text: &str) -> Result<KnownDifferences, Failure> {
        let mut entries = Vec::new();
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, reason) = line
                .split_once('\t')
                .filter(|(_, reason)| !reason.trim().is_empty())
                .ok_or_else(|| format!("a known difference needs a tab and a reason: {line}"))?;
            let beginning = name.strip_suffix('*');
            entries.push(Entry {
                name: beginning.unwrap_or(name).to_owned(),
                is_beginning: beginning.is_some(),
                reason: reason.to_owned(),
            });
        }
        Ok(KnownDifferences { entries })
    }

    /// Returns whether a test is in the list.
    pub fn names(&self, test: &str) -> bool {
        self.reason(test).is_some()
    }

    /// Returns the reason why a test differs.
    pub fn reason(&self, test: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.is(test));
        entry.map(|entry| &*entry.reason)
    }

    /// Returns the entries that match none of the tests that differ.
    pub fn without(&self, differences: &[String]) -> impl Iterator<Item = &str> {
        let stale = |entry: &&Entry| !differences.iter().any(|test| entry.is(test));
        self.entries.iter().filter(stale).map(|entry| &*entry.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings_are_found() {
        let list = "# for people\n\na\tone\nb/*\tmany\nc\tgone\n";
        let known = KnownDifferences::parse(list).unwrap();
        assert_eq!(known.reason("a"), Some("one"));
        assert_eq!(known.reason("b/x"), Some("many"));
        assert!(!known.names("ab"));
        let differ = ["a".to_owned(), "b/x".to_owned()];
        assert_eq!(known.without(&differ).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn an_entry_needs_a_reason() {
        assert!(KnownDifferences::parse("a\t\n").is_err());
        assert!(KnownDifferences::parse("a because\n").is_err());
    }

    #[test]
    fn the_lists_are_well_formed() {
        for suite in crate::suites::ALL {
            let read = KnownDifferences::parse(suite.known);
            assert!(read.is_ok(), "{}: {read:?}", suite.name);
        }
    }
}
