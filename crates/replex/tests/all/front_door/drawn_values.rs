//! Random values of every type, as texts.

use crate::support::drawn_ranges::Draw;

// tidy: long — one arm per type.
/// Returns a random text of a value.
pub(super) fn value(random: &mut Draw, column_type: &str) -> String {
    let digits = |random: &mut Draw, count: usize| -> String {
        (0..count)
            .map(|_| char::from(b'0' + random.below(10) as u8))
            .collect()
    };
    let hex = |random: &mut Draw, count: usize| -> String {
        let digit = |random: &mut Draw| char::from(b"0123456789abcdef"[random.below(16)]);
        (0..count).map(|_| digit(random)).collect()
    };
    let sign = |random: &mut Draw| ["", "-"][random.below(2)];
    let day = |random: &mut Draw| {
        format!(
            "{:04}-{:02}-{:02}",
            1 + random.below(9999),
            1 + random.below(12),
            1 + random.below(28)
        )
    };
    let moment = |random: &mut Draw| {
        format!(
            "{} {:02}:{:02}:{:02}.{}",
            day(random),
            random.below(24),
            random.below(60),
            random.below(60),
            digits(random, 6)
        )
    };
    match column_type {
        "boolean" => ["t", "false", "yes", "0", " on "][random.below(5)].into(),
        "smallint" => {
            let edges = ["32767", "-32768", "32768", "0"];
            match random.below(4) {
                0 => edges[random.below(4)].into(),
                _ => {
                    let count = 1 + random.below(4);
                    format!("{}{}", sign(random), digits(random, count))
                }
            }
        }
        "integer" => {
            let edges = ["2147483647", "-2147483648", "-2147483649", " 7"];
            match random.below(4) {
                0 => edges[random.below(4)].into(),
                _ => {
                    let count = 1 + random.below(9);
                    format!("{}{}", sign(random), digits(random, count))
                }
            }
        }
        "real" => match random.below(4) {
            0 => ["NaN", "-Infinity", "-0", "1e-45", "3.4e38", "3.5e38"][random.below(6)].into(),
            1 => format!("{}{}e{}", sign(random), digits(random, 3), random.below(36)),
            _ => {
                let (whole, fraction) = (1 + random.below(9), 1 + random.below(9));
                format!(
                    "{}{}.{}",
                    sign(random),
                    digits(random, whole),
                    digits(random, fraction)
                )
            }
        },
        "varchar(5)" | "char(5)" => {
            // PostgreSQL refuses a longer one in Bind, the store in Execute.
            let parts = ["", "a", " ", "ä", "😀", "'"];
            let count = random.below(6);
            let text: String = (0..count)
                .map(|_| parts[random.below(parts.len())])
                .collect();
            text + ["", "", "      "][random.below(3)]
        }
        "date" => match random.below(4) {
            0 => {
                ["infinity", "-infinity", "0044-03-15 BC", "5874897-12-31"][random.below(4)].into()
            }
            _ => day(random),
        },
        "timestamptz" => match random.below(4) {
            0 => ["infinity", "-infinity", "0044-03-15 00:00:00+00 BC"][random.below(3)].into(),
            _ => moment(random) + ["", "Z", "+02", "-05:30"][random.below(4)],
        },
        "numeric" => match random.below(4) {
            0 => [
                "NaN",
                "-Infinity",
                "-0.00",
                " 1e30 ",
                "1.50e-20",
                "1e5000",
                "1e131072",
                "x",
            ][random.below(8)]
            .into(),
            _ => {
                let (whole, fraction) = (random.below(40), 1 + random.below(40));
                format!(
                    "{}{}.{}",
                    sign(random),
                    digits(random, whole),
                    digits(random, fraction)
                )
            }
        },
        "numeric(9,3)" => match random.below(4) {
            0 => {
                // PostgreSQL refuses a larger one in Bind, the store in Execute.
                ["NaN", "999999.9994", "-999999.9994", "0.0005"][random.below(4)].into()
            }
            _ => {
                let (whole, fraction) = (random.below(6), 1 + random.below(6));
                format!(
                    "{}{}.{}",
                    sign(random),
                    digits(random, whole),
                    digits(random, fraction)
                )
            }
        },
        "bigint" => match random.below(4) {
            0 => {
                ["9223372036854775807", "-9223372036854775808", "0", " 7 "][random.below(4)].into()
            }
            _ => {
                let count = 1 + random.below(18);
                format!("{}{}", sign(random), digits(random, count))
            }
        },
        "double precision" => match random.below(4) {
            0 => [
                "NaN",
                "Infinity",
                "-Infinity",
                "-0",
                "1e-310",
                "5e-324",
                "1.7976931348623157e308",
            ][random.below(7)]
            .into(),
            1 => format!(
                "{}{}e{}",
                sign(random),
                digits(random, 3),
                random.below(300)
            ),
            _ => {
                let (whole, fraction) = (1 + random.below(17), 1 + random.below(17));
                format!(
                    "{}{}.{}",
                    sign(random),
                    digits(random, whole),
                    digits(random, fraction)
                )
            }
        },
        "text" => {
            let parts = [
                "", "a", " ", "'", "\\", "ä", "😀", "\t\n", "NULL", "$1", "\u{1}",
            ];
            (0..random.below(9))
                .map(|_| parts[random.below(parts.len())])
                .collect()
        }
        "bytea" => {
            let count = 2 * random.below(20);
            format!("\\x{}", hex(random, count))
        }
        "timestamp" => match random.below(5) {
            0 => [
                "infinity",
                "-infinity",
                "0044-03-15 BC",
                "4713-01-01 00:00:00 BC",
            ][random.below(4)]
            .into(),
            _ => moment(random),
        },
        _ => format!(
            "{}-{}-{}-{}-{}",
            hex(random, 8),
            hex(random, 4),
            hex(random, 4),
            hex(random, 4),
            hex(random, 12)
        ),
    }
}
