//! Golden frames: one or more of every kind of message, byte for byte. Another implementation of
//! the protocol reads the same files.
//!
//! A file is named after its message. Lines that begin with `#` describe it, the others are the
//! frame in hexadecimal digits. To write them again after a change of the format, which is a new
//! `FORMAT_VERSION`: `REPLEX_WRITE_GOLDEN=1 cargo test -p protocol --test codec golden`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use protocol::codec::Wire;
use protocol::frame;
use protocol::message::Message;

use super::samples::kinds::{KINDS, kind};
use super::samples::samples;

const CORRELATION: u64 = 42;
const HEX_BYTES_PER_LINE: usize = 32;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn golden_frames_are_what_is_written_and_read() {
    let write = std::env::var_os("REPLEX_WRITE_GOLDEN").is_some();
    let samples = samples();
    let mut covered = BTreeSet::new();
    for (name, message) in &samples {
        let kind = kind(message);
        assert!(
            name.starts_with(kind),
            "{name} is named after its kind, {kind}"
        );
        covered.insert(kind);
        let mut frame = Vec::new();
        frame::encode(CORRELATION, message, &mut frame);
        let path = folder().join(format!("{name}.hex"));
        if write {
            fs::write(&path, file_text(message, &frame)).unwrap();
        }
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; see this file's header", path.display()));
        assert_eq!(
            from_hex(&text),
            frame,
            "{name}: the format changed; see this file's header"
        );
        let expected = frame::Frame {
            correlation: CORRELATION,
            message: message.clone(),
        };
        assert_eq!(frame::decode(&frame), Ok(Some((expected, frame.len()))));
    }
    assert_eq!(
        covered,
        KINDS.iter().copied().collect(),
        "every kind has a golden frame"
    );
    let files: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let named = samples.keys().map(|name| format!("{name}.hex")).collect();
    assert_eq!(files, named, "no file is left over");
}

/// The document's table of messages names every kind, with the bytes that it begins with.
#[test]
fn document_names_every_kind_with_its_bytes() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/protocol.md"
    );
    let text = fs::read_to_string(path).expect("the document is part of the repository");
    let mut documented = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect();
        if let ["", kind, bytes, _, ""] = cells[..]
            && KINDS.contains(&kind)
        {
            let other = documented.insert(kind, from_hex(bytes));
            assert_eq!(other, None, "{kind} is there twice");
        }
    }
    for (name, message) in samples() {
        let bytes = documented.get(kind(&message));
        let bytes = bytes.unwrap_or_else(|| panic!("docs/reference/protocol.md lacks {name}"));
        assert!(
            message.to_bytes().starts_with(bytes),
            "{name} begins otherwise"
        );
    }
}

fn file_text(message: &Message, frame: &[u8]) -> String {
    let mut text = format!("# Correlation {CORRELATION}.\n");
    for line in compact(&format!("{message:#?}")) {
        text.push_str(&format!("# {line}\n"));
    }
    for line in frame.chunks(HEX_BYTES_PER_LINE) {
        let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&line.join(" "));
        text.push('\n');
    }
    text
}

/// The lines of a debug text, with what takes one line per number put on one line.
fn compact(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut joins = false;
    for line in text.lines() {
        let word = line.trim();
        let number = word.ends_with(',') && word.len() > 1 && {
            let digits = word.trim_start_matches('-').trim_end_matches(',');
            digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let closes = joins && matches!(word, "]," | "]" | ")," | ")");
        let opened = lines.last().is_some_and(|last| last.ends_with(['[', '(']));
        match lines.last_mut() {
            Some(last) if number && (joins || opened) => {
                last.push_str(if joins { " " } else { "" });
                last.push_str(word);
                joins = true;
            }
            Some(last) if closes => {
                last.truncate(last.trim_end_matches(',').len());
                last.push_str(word);
                joins = false;
            }
            _ => {
                lines.push(line.into());
                joins = false;
            }
        }
    }
    lines
}

fn from_hex(text: &str) -> Vec<u8> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let digits = lines.flat_map(str::split_ascii_whitespace);
    digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits"))
        .collect()
}
