//! Reads options from a TOML file. Its keys are the long names of the command-line options, so that
//! both have the same checks and the same help.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Command, FromArgMatches};
use toml::{Table, Value};

use super::arguments::ServeArguments;

/// Returns these options together with those of the file of `--config`, if there is one. The error
/// is for people.
pub fn with_file(serve: &ServeArguments) -> Result<ServeArguments, String> {
    let Some(path) = &serve.config else {
        return Ok(serve.clone());
    };
    let own = std::env::args_os().skip_while(|word| word != "proxy");
    let message = |error: String| format!("{}: {error}", path.display());
    let merged = merged(&read(path)?, own.skip(1)).map_err(message)?;
    Ok(ServeArguments {
        config: Some(path.clone()),
        ..merged
    })
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the options of a file together with those of a command line, which take precedence.
fn merged(file: &str, own: impl Iterator<Item = OsString>) -> Result<ServeArguments, String> {
    let command = Command::new("replex proxy").args_override_self(true);
    let command = ServeArguments::augment_args(command);
    let table: Table = file
        .parse()
        .map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?;
    let mut words = vec![OsString::from("replex proxy")];
    for (name, value) in &table {
        let mut options = command.get_arguments();
        let is_option = options.any(|option| option.get_long() == Some(name));
        if !is_option || name == "config" {
            return Err(format!(
                "there is no option {name} for it: `replex proxy --help` names all"
            ));
        }
        words.extend(words_of(name, value)?.into_iter().map(OsString::from));
    }
    let matches = command.try_get_matches_from(words.into_iter().chain(own));
    let serve = matches.and_then(|matches| ServeArguments::from_arg_matches(&matches));
    serve.map_err(|error| {
        let text = error.to_string();
        // The rest of the message is about the command line.
        let what = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<&str> = what.split_whitespace().collect();
        words.join(" ").trim_start_matches("error: ").to_owned()
    })
}

/// Returns an option of a file as words of a command line.
fn words_of(name: &str, value: &Value) -> Result<Vec<String>, String> {
    Ok(match value {
        Value::String(text) => vec![format!("--{name}={text}")],
        Value::Integer(number) => vec![format!("--{name}={number}")],
        Value::Boolean(true) => vec![format!("--{name}")],
        Value::Boolean(false) => Vec::new(),
        Value::Array(values) => {
            let words = values.iter().map(|value| words_of(name, value));
            words.collect::<Result<Vec<_>, _>>()?.concat()
        }
        other => {
            let kind = other.type_str();
            return Err(format!(
                "{name} is a {kind}: options are texts, whole numbers, true, or lists of these"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str, own: &[&str]) -> Result<ServeArguments, String> {
        merged(file, own.iter().map(OsString::from))
    }

    #[test]
    fn options_are_read_and_the_command_line_counts_more() {
        let file = r#"
            primary = "postgresql://ann@db/shop"
            replica = ["postgresql://ann@db2/shop", "postgresql://ann@db3/shop"]
            clients = 10
            connections = 5
            trust = true
            replicate = false
        "#;
        let own = ["--clients", "20", "--replica", "postgresql://ann@db4/shop"];
        let serve = of(file, &own).expect("it is right");
        assert_eq!(serve.primary.as_deref(), Some("postgresql://ann@db/shop"));
        assert_eq!(serve.replica.len(), 3);
        assert_eq!((serve.clients, serve.connections), (20, 5));
        assert!(serve.trust && !serve.replicate);
    }

    #[test]
    fn errors_name_the_fault() {
        let wrong = [
            ("clients = ", "line 1"),
            ("client = 3", "no option client for it"),
            ("config = \"x\"", "no option config for it"),
            ("clients = 0", "clients"),
            ("clients = 1.5", "clients is a float"),
            ("[pools]\nmain = 1", "no option pools for it"),
            ("tls-key = \"key.pem\"", "--tls-certificate"),
            ("users = \"users.txt\"\ntrust = true", "cannot be used with"),
        ];
        for (file, expected) in wrong {
            let message = of(file, &[]).expect_err(file);
            assert!(message.contains(expected), "{file}: {message}");
        }
    }
}
