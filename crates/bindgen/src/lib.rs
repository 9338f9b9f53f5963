//! Replaces the crate `bindgen` in the build of `pg_raw_parse`, so that it needs no libclang.
//!
//! The build script of `pg_raw_parse` configures bindgen three times and uses the Rust text that it
//! returns. This crate accepts the same calls and returns text that bindgen generated once:
//! `cargo xtask bindings` wrote it into the folder `generated`. It generates nothing itself, and it
//! serves no other crate.

mod options;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

pub use options::{Abi, CargoCallbacks, EnumVariation, NonCopyUnionStyle};

/// The crate whose build script is served.
const PACKAGE: &str = "pg_raw_parse";
/// Its version: the text describes the memory layout of its C structs, and of no other version.
const VERSION: &str = include_str!("../generated/version.txt");
/// PostgreSQL's parse nodes as structs, with their comments.
const NODES: &str = include_str!("../generated/nodes.rs.txt");
/// Enums, constants, functions, and every struct that is not a parse node.
const PARSER: &str = include_str!("../generated/parser.rs.txt");
/// C functions that make static ones visible to the linker.
const STATIC_FUNCTIONS: &str = include_str!("../generated/static_functions.c");

/// A struct that only the request for the bindings of the nodes excludes.
const EXCLUDED_FROM_NODES: &str = "Const";

/// Returns a builder without options, as `bindgen::builder` does.
pub fn builder() -> Builder {
    Builder::default()
}

/// Collects the options by which the requests of the build script differ.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    excludes_unparsed: bool,
    /// Where the file of C functions goes, without its replica.
    static_functions_path: Option<PathBuf>,
}

impl Builder {
    /// Records whether the build script requests the bindings of the nodes. Only that request
    /// excludes this type.
    #[must_use]
    pub fn blocklist_type(mut self, name: impl AsRef<str>) -> Builder {
        self.excludes_unparsed |= name.as_ref() == EXCLUDED_FROM_NODES;
        self
    }

    /// Records the path to which the C functions are written.
    #[must_use]
    pub fn wrap_static_fns_path(mut self, path: impl AsRef<Path>) -> Builder {
        self.static_functions_path = Some(path.as_ref().to_owned());
        self
    }

    /// Returns the text that was generated for these options, and writes the C functions if they
    /// were requested.
    pub fn generate(self) -> Result<Bindings, Refused> {
        let variable = |name| env::var(name).unwrap_or_default();
        check(&variable("CARGO_PKG_NAME"), &variable("CARGO_PKG_VERSION"))?;
        if let Some(path) = &self.static_functions_path {
            let path = path.with_extension("c");
            let written = fs::write(&path, STATIC_FUNCTIONS);
            written
                .map_err(|error| Refused(format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(Bindings {
            text: match self.excludes_unparsed {
                true => NODES,
                false => PARSER,
            },
        })
    }
}

/// Rejects every crate but the one whose bindings are in the folder `generated`.
fn check(package: &str, version: &str) -> Result<(), Refused> {
    let known = VERSION.trim();
    if package != PACKAGE {
        return Err(Refused(format!(
            "the crate `bindgen` of this workspace has bindings for {PACKAGE} only, not for \
             {package}: see [patch] in the root Cargo.toml"
        )));
    }
    if version != known {
        return Err(Refused(format!(
            "crates/bindgen has bindings for {PACKAGE} {known}, not for {version}: run `cargo \
             xtask bindings`, which needs libclang"
        )));
    }
    Ok(())
}

/// Rust text, ready to be written.
#[derive(Clone, Copy, Debug)]
pub struct Bindings {
    text: &'static str,
}

impl Bindings {
    /// Writes the text to a writer.
    pub fn write(&self, mut writer: Box<dyn Write + '_>) -> io::Result<()> {
        writer.write_all(self.text.as_bytes())
    }

    /// Writes the text to a file, which is replaced if it exists.
    pub fn write_to_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        fs::write(path, self.text)
    }
}

/// Why there are no bindings.
pub struct Refused(String);

/// The build script unwraps the result, which prints this.
impl fmt::Debug for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(package: &str, version: &str) -> String {
        format!("{:?}", check(package, version))
    }

    #[test]
    fn only_the_version_that_was_generated_for_is_served() {
        assert_eq!(refusal(PACKAGE, VERSION.trim()), "Ok(())");
        let found = refusal(PACKAGE, "99.0.0");
        assert!(
            found.contains("not for 99.0.0: run `cargo xtask bindings`"),
            "{found}"
        );
        let found = refusal("other", VERSION.trim());
        assert!(found.contains("only, not for other"), "{found}");
    }

    #[test]
    fn nodes_have_the_comments_from_which_types_of_lists_are_derived() {
        assert!(NODES.contains("pub struct SelectStmt {"));
        assert!(NODES.contains("list of ColumnDef"));
        assert!(!PARSER.contains("pub struct SelectStmt {"));
        assert!(PARSER.contains("pub fn pg_query_raw_parse("));
    }
}
