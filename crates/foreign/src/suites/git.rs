//! Fetches sources from a project's own Git repository, for tests that no package registry has. If
//! the repository itself cannot be reached, Git's setting `url.….insteadOf` names a mirror.

use std::path::Path;

use super::once;
use crate::{Failure, program};

/// Clones one tag of a repository into `source`.
pub fn source(folder: &Path, repository: &str, tag: &str) -> Result<(), Failure> {
    once(folder, "source", |part| {
        let clone = "git clone --quiet --depth 1 -c advice.detachedHead=false --branch";
        program::run(program::words(clone, part).args([tag, repository, "."])).map(drop)
    })
}
