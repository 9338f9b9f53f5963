//! `cargo xtask bindings`: generates, by the real bindgen, the bindings that crate `bindgen`
//! returns.
//!
//! A copy of `pg_raw_parse` is built in a folder of its own, where no crate is replaced. Its build
//! script is extended there to keep the output of bindgen.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::cargo;

/// The crate whose build script uses bindgen.
const PACKAGE: &str = "pg_raw_parse";
/// Where the copy is built.
const SCRATCH: &str = "target/bindings";
/// Where the result goes.
const GENERATED: &str = "crates/bindgen/generated";

/// Lines of the build script, and the insertion before each.
const INSERTIONS: &[(&str, &str)] = &[
    (
        "    let node_structs =\n",
        "    std::fs::write(out_dir.join(\"nodes.rs\"), &node_bindings).unwrap();\n",
    ),
    (
        "    let mut build = cc::Build::new();\n",
        "    for name in [\"nodes.rs\", \"bindings.rs\", \"wrap_static_fns.c\"] {\n        \
         std::fs::copy(out_dir.join(name), build_dir.join(name)).unwrap();\n    }\n",
    ),
];

/// Files of the copy, and as which they are kept.
const KEPT: &[(&str, &str)] = &[
    ("nodes.rs", "nodes.rs.txt"),
    ("bindings.rs", "parser.rs.txt"),
    ("wrap_static_fns.c", "static_functions.c"),
];

/// Generates the bindings again.
pub fn run(root: &Path) -> Result<(), String> {
    let source = source(root)?;
    let version = version(&source)?;
    let scratch = root.join(SCRATCH);
    let copy = scratch.join(PACKAGE);
    remove(&scratch)?;
    copy_folder(&source, &copy)?;
    edit(&copy.join("Cargo.toml"), |text| {
        // Its own workspace, so that it does not belong to ours.
        Ok(format!("{text}\n[workspace]\n"))
    })?;
    edit(&copy.join("build.rs"), extended)?;
    cargo::run(&copy, ["build", "--locked"])?;
    let generated = root.join(GENERATED);
    for (from, to) in KEPT {
        let text = read(&copy.join(from))?;
        let text = format!(
            "/* From the PostgreSQL headers in {PACKAGE} {version}, by `cargo xtask bindings`. */\n{text}"
        );
        write(&generated.join(to), &text)?;
    }
    write(&generated.join("version.txt"), &format!("{version}\n"))?;
    remove(&scratch)
}

/// Returns the build script with the insertions.
fn extended(text: String) -> Result<String, String> {
    INSERTIONS.iter().try_fold(text, |text, (line, insertion)| {
        if text.matches(line).count() != 1 {
            return Err(format!(
                "the build script of {PACKAGE} has changed: it has not one line `{}`",
                line.trim()
            ));
        }
        Ok(text.replace(line, &format!("{insertion}{line}")))
    })
}

/// Returns the folder in which cargo keeps the sources of the crate.
fn source(root: &Path) -> Result<PathBuf, String> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("`cargo metadata` did not start: {error}"))?;
    let metadata = String::from_utf8_lossy(&output.stdout);
    let manifest = manifest_path(&metadata).ok_or_else(|| {
        format!(
            "`cargo metadata` does not list {PACKAGE}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })?;
    let folder = Path::new(manifest).parent().map(Path::to_path_buf);
    folder.ok_or_else(|| format!("{manifest} is in no folder"))
}

/// Returns the manifest of the crate, from the output of `cargo metadata`.
fn manifest_path(metadata: &str) -> Option<&str> {
    let folder = format!("/{PACKAGE}-");
    metadata
        .split("\"manifest_path\":\"")
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.contains(&folder))
}

/// Returns the version at the end of the folder's name.
fn version(source: &Path) -> Result<String, String> {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let version = name
        .strip_prefix(PACKAGE)
        .and_then(|it| it.strip_prefix('-'));
    let version = version.ok_or_else(|| format!("{} names no version", source.display()))?;
    Ok(version.to_owned())
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let shown = |error| format!("Cannot copy {}: {error}", from.display());
    fs::create_dir_all(to).map_err(shown)?;
    for entry in fs::read_dir(from).map_err(shown)? {
        let path = entry.map_err(shown)?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(shown)?;
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if folder.exists() => {
            Err(format!("Cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn edit(path: &Path, change: fn(String) -> Result<String, String>) -> Result<(), String> {
    write(path, &change(read(path)?)?)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("Cannot read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("Cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insertions_stand_before_their_lines() {
        let script = "    let node_structs =\n        x;\n    let mut build = cc::Build::new();\n";
        let found = extended(script.into()).unwrap();
        let at = |text: &str| found.find(text).unwrap();
        assert!(at("\"nodes.rs\"), &node_bindings") < at("let node_structs"));
        assert!(at("let node_structs") < at("std::fs::copy"));
        assert!(at("std::fs::copy") < at("cc::Build"));
    }

    #[test]
    fn build_script_of_another_shape_is_refused() {
        let message = extended("fn main() {}\n".into()).unwrap_err();
        assert!(message.contains("has changed"), "{message}");
    }

    #[test]
    fn sources_are_found_in_the_metadata() {
        let metadata = "{\"manifest_path\":\"/a/pg-1/Cargo.toml\",\"x\":1,\
                        \"manifest_path\":\"/a/pg_raw_parse-1.2.3/Cargo.toml\"}";
        let path = manifest_path(metadata).unwrap();
        assert_eq!(path, "/a/pg_raw_parse-1.2.3/Cargo.toml");
        assert_eq!(version(Path::new(path).parent().unwrap()).unwrap(), "1.2.3");
        assert_eq!(manifest_path("{}"), None);
    }
}
