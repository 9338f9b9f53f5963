//! Fetches the sources of Debian packages, from the archive that the machine's own packages come
//! from.

use std::path::Path;

use crate::{Failure, program};

/// Debian's lists of packages, in their newer form.
const LISTS: &str = "/etc/apt/sources.list.d/debian.sources";
/// The file that names the machine's system.
const RELEASE: &str = "/etc/os-release";

/// Unpacks the source of a package into `folder`.
fn unpack(package: &str, folder: &Path) -> Result<(), Failure> {
    let lists = std::fs::read_to_string(LISTS)
        .map_err(|error| format!("{LISTS}: {error}: suites of Debian need a Debian"))?;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for part in ["sources", "lists/partial", "source"] {
        std::fs::create_dir_all(folder.join(part)).map_err(failed)?;
    }
    let lists = lists.replace("Types: deb\n", "Types: deb-src\n");
    std::fs::write(folder.join("sources/debian.sources"), lists).map_err(failed)?;
    let apt = |words: &str| {
        let mut command = program::words(&format!("apt-get -q {words}"), folder);
        let place = |name: &str| folder.join(name).display().to_string();
        command.args(["-o", "Dir::Etc::sourcelist=/dev/null"]);
        command.args(["-o", &format!("Dir::Etc::sourceparts={}", place("sources"))]);
        command.args(["-o", &format!("Dir::State::lists={}", place("lists"))]);
        command.args(["-o", "APT::Sandbox::User=root"]);
        program::run(&mut command)
    };
    apt("update")?;
    apt(&format!("source --download-only {package}"))?;
    let files = std::fs::read_dir(folder).map_err(failed)?.flatten();
    let mut names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let archive = names
        .find(|name| name.contains(".orig.tar") && !name.ends_with(".asc"))
        .ok_or_else(|| format!("Debian's {package} has no original source"))?;
    let mut tar = program::words("tar --strip-components=1 -C source -xf", folder);
    program::run(tar.arg(archive)).map(drop)
}

/// Unpacks the source of an installed package into `folder`: of the installed version, or, if the
/// archive does not have that, of Debian's release. `source` is the name of the source package.
pub fn unpack_installed(source: &str, package: &str, folder: &Path) -> Result<(), Failure> {
    let query = "dpkg-query --show --showformat ${source:Version}";
    let version = program::run(program::words(query, folder).arg(package))
        .map_err(|error| format!("{error}: `apt-get install {package}`"))?;
    if unpack(&format!("{source}={version}"), folder).is_ok() {
        return Ok(());
    }
    let release = codename()?;
    println!(
        "The archive lacks the source of {source} {version}, so the tests are those of {release}. \
         They may expect other answers, directly too."
    );
    unpack(&format!("{source}/{release}"), folder)
}

/// Returns the name of the installed release of Debian.
fn codename() -> Result<String, Failure> {
    let about = std::fs::read_to_string(RELEASE).map_err(|error| format!("{RELEASE}: {error}"))?;
    let name = about
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(str::to_owned)
        .ok_or_else(|| format!("{RELEASE} has no name of a release"))
}
