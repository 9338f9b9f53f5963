//! Errors and notices as PostgreSQL reports them: fields of one letter each.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use bytes::BytesMut;

use crate::message;
use crate::quoting::literal;

/// The severity of an error or a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For information.
    Notice,
    /// The statement has run, and probably not as the client expects.
    Warning,
    /// The statement failed.
    Error,
    /// The session ends.
    Fatal,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        }
    }
}

/// An error or a notice: of the proxy, of the store, or from another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The report's severity.
    pub severity: Severity,
    /// The SQLSTATE: five characters.
    pub code: String,
    /// The message: the event and its object.
    pub message: String,
    /// Further details, in lines; may be empty.
    pub detail: String,
    /// The remedy; may be empty.
    pub hint: String,
    /// The position in the query string: the number of a character, from 1.
    pub position: Option<u32>,
    /// The object of the error, if the report names one for programs.
    pub object: Option<Box<ReportObject>>,
}

/// The object of an error, for programs. Names that are not known are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportObject {
    /// The schema of the table.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The constraint.
    pub constraint: String,
    /// For people: the place of the object, such as a line of the data of a COPY.
    pub context: String,
}

impl Report {
    /// Returns a PL/pgSQL statement that makes a server raise this error.
    pub fn raised(&self) -> String {
        let hint = match &self.hint[..] {
            "" => String::new(),
            hint => format!(", HINT = {}", literal(hint)),
        };
        format!(
            "RAISE EXCEPTION USING ERRCODE = {}, MESSAGE = {}{hint}",
            literal(&self.code),
            literal(&self.message),
        )
    }

    /// Returns a report without a hint.
    pub fn new(severity: Severity, code: &str, message: impl Into<String>) -> Report {
        Report {
            severity,
            code: code.to_string(),
            message: message.into(),
            detail: String::new(),
            hint: String::new(),
            position: None,
            object: None,
        }
    }

    /// Adds the position in the query string: the number of a character, from 1.
    #[must_use]
    pub fn at(mut self, position: u32) -> Report {
        self.position = Some(position);
        self
    }

    /// Adds the object of the error.
    #[must_use]
    pub fn about(mut self, object: ReportObject) -> Report {
        self.object = Some(Box::new(object));
        self
    }

    /// Adds details, in lines.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Report {
        self.detail = detail.into();
        self
    }

    /// Adds the remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Report {
        self.hint = hint.into();
        self
    }

    /// Adds where the event was.
    #[must_use]
    pub fn within(mut self, context: impl Into<String>) -> Report {
        self.object_mut().context = context.into();
        self
    }

    /// Returns this report with the severity FATAL, which ends the session.
    #[must_use]
    pub fn fatal(mut self) -> Report {
        self.severity = Severity::Fatal;
        self
    }

    /// Appends the report as a message to a client.
    pub fn write(&self, out: &mut BytesMut) {
        let tag = match self.severity {
            Severity::Notice | Severity::Warning => b'N',
            Severity::Error | Severity::Fatal => b'E',
        };
        let word = self.severity.word();
        // A zero byte in a text would end its field: such a text is cut there.
        let text = |text: &str| text.split('\0').next().unwrap_or_default().to_string();
        let mut fields = format!(
            "S{word}\0V{word}\0C{}\0M{}\0",
            self.code,
            text(&self.message)
        );
        let mut add = |kind: char, further: &str| {
            if !further.is_empty() {
                fields += &format!("{kind}{}\0", text(further));
            }
        };
        add('D', &self.detail);
        add('H', &self.hint);
        if let Some(position) = self.position {
            add('P', &position.to_string());
        }
        if let Some(object) = &self.object {
            add('s', &object.schema);
            add('t', &object.table);
            add('c', &object.column);
            add('n', &object.constraint);
            add('W', &object.context);
        }
        message::write(out, tag, &[fields.as_bytes(), b"\0"], 0);
    }

    /// Parses the body of a server's ErrorResponse. Missing fields are empty.
    pub fn read(body: &[u8]) -> Report {
        let mut report = Report::new(Severity::Error, "", "");
        for field in body.split(|&byte| byte == 0) {
            let Some((kind, text)) = field.split_first() else {
                continue;
            };
            let text = String::from_utf8_lossy(text).into_owned();
            match kind {
                b'V' if text == "FATAL" || text == "PANIC" => report.severity = Severity::Fatal,
                b'C' => report.code = text,
                b'M' => report.message = text,
                b'D' => report.detail = text,
                b'H' => report.hint = text,
                b'W' => report.object_mut().context = text,
                b'P' => report.position = text.parse().ok(),
                b's' => report.object_mut().schema = text,
                b't' => report.object_mut().table = text,
                b'c' => report.object_mut().column = text,
                b'n' => report.object_mut().constraint = text,
                _ => {}
            }
        }
        report
    }

    fn object_mut(&mut self) -> &mut ReportObject {
        self.object.get_or_insert_default()
    }
}

/// Returns the body of an ErrorResponse with its position in the query reduced by `characters`.
pub fn moved(body: &[u8], characters: usize) -> Vec<u8> {
    let fields = body.split(|&byte| byte == 0).map(|field| {
        let place = field
            .strip_prefix(b"P")
            .and_then(|place| str::from_utf8(place).ok());
        match place.and_then(|place| place.parse::<usize>().ok()) {
            Some(place) => format!("P{}", place.saturating_sub(characters).max(1)).into_bytes(),
            None => field.to_vec(),
        }
    });
    fields.collect::<Vec<_>>().join(&0)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Report {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::framing::HEADER_LEN;

    #[test]
    fn written_report_is_read() {
        let report = Report::new(Severity::Fatal, "08006", "gone\0hidden")
            .detail("at once\nfor good")
            .hint("look")
            .at(7)
            .about(ReportObject {
                schema: "public".into(),
                table: "t".into(),
                column: String::new(),
                constraint: "t_pkey".into(),
                context: "COPY t, line 1".into(),
            });
        let mut out = BytesMut::new();
        report.write(&mut out);
        assert_eq!(out[0], b'E');
        let read = Report::read(&out[HEADER_LEN..]);
        assert_eq!(read.message, "gone");
        assert_eq!(
            (read.severity, read.code, read.detail, read.hint),
            (report.severity, report.code, report.detail, report.hint)
        );
        assert_eq!((read.position, read.object), (Some(7), report.object));
    }

    proptest! {
        #[test]
        fn any_body_is_read(body in prop::collection::vec(any::<u8>(), 0..60)) {
            Report::read(&body);
        }
    }
}
